/* SPDX-License-Identifier: Apache-2.0
 *
 * all_page.c - the HTML page of `stress all`: base/html/html_page.h with the files of page/, around the lines of the
 * run. It looks as the report of a recording does: style and the first scripts are that one's.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/html/html_page.h"
#include "base/new_file.h"
#include "gen_stress.h"
#include "tools/stress/all/all.h"

HTML_FILE_OF(stress_page, "tools/stress/all/page/page.html");
HTML_FILE_OF(stress_style, "user/sink/report/page/style.css");
HTML_FILE_OF(stress_more, "tools/stress/all/page/stress.css");
HTML_FILE_OF(stress_script, STRESS_SCRIPT);

static int text_write(int fd, const char *json)
{
	const struct html_page page = {
		.page = stress_page_begin,
		.page_end = stress_page_end,
		.style = stress_style_begin,
		.style_end = stress_style_end,
		.more = stress_more_begin,
		.more_end = stress_more_end,
		.script = stress_script_begin,
		.script_end = stress_script_end,
		.hash = STRESS_SCRIPT_SHA256,
	};

	return html_page_write(fd, &page, json);
}

int all_page_write(const struct all *all, int status, const char *path)
{
	cJSON *data = cJSON_CreateObject();
	int fd = new_file_open(path), err = fd < 0 ? fd : 0;
	char *json;

	cJSON_AddNumberToObject(data, "status", status);
	cJSON_AddBoolToObject(data, "quick", all->options->all.quick);
	cJSON_AddItemReferenceToObject(data, "lines", all->lines);
	json = cJSON_PrintUnformatted(data);
	if (!err)
		err = json ? text_write(fd, json) : -ENOMEM;
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	free(json);
	cJSON_Delete(data);
	return err;
}
