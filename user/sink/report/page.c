/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - the page of a report: base/html/html_page.h with the files of page/.
 */
#include "base/html/html_page.h"
#include "gen_report.h"
#include "sink/report/report.h"

HTML_FILE_OF(report_page, "user/sink/report/page/page.html");
HTML_FILE_OF(report_style, "user/sink/report/page/style.css");
HTML_FILE_OF(report_script, REPORT_SCRIPT);

int report_write(int fd, const char *json)
{
	const struct html_page page = {
		.page = report_page_begin,
		.page_end = report_page_end,
		.style = report_style_begin,
		.style_end = report_style_end,
		.script = report_script_begin,
		.script_end = report_script_end,
		.hash = REPORT_SCRIPT_SHA256,
	};

	return html_page_write(fd, &page, json);
}
