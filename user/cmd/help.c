/* SPDX-License-Identifier: Apache-2.0
 *
 * help.c - see help.h. argp sorts options by their letters; people look for what belongs together.
 */
#include "cmd/help.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "command.h"

#define WIDTH 80
#define INDENT 26 /* of the explanations */
#define OPTIONS_MAX 64
#define OPT_USAGE 9000
#define OPT_TABLE 9001

static const struct argp_option help_options[] = {
	{ "help", 'h', 0, 0, "print this text", HELP_MESSAGES },
	{ "usage", OPT_USAGE, 0, OPTION_HIDDEN, 0, HELP_MESSAGES },
	{ "print-options", OPT_TABLE, 0, OPTION_HIDDEN, 0, HELP_MESSAGES },
	{ "version", 'V', 0, 0, "print the version", HELP_MESSAGES },
	{ 0 },
};

void version_print(void)
{
	printf("ranktrace %s\n", RANKTRACE_VERSION);
}

void help_wrap(FILE *to, const char *text, int at, int indent)
{
	while (*text) {
		int len = strcspn(text, " ");

		if (at > indent && at + 1 + len > WIDTH) {
			fprintf(to, "\n%*s", indent, "");
			at = indent;
		} else if (at > indent) {
			at += fprintf(to, " ");
		}
		at += fprintf(to, "%.*s", len, text);
		text += len + (text[len] == ' ');
	}
	fprintf(to, "\n");
}

static void usage_print(FILE *to, const struct help *help)
{
	const char *line = help->usage, *end;

	for (const char *begin = "Usage:"; line; line = *end ? end + 1 : NULL, begin = "      ") {
		end = strchrnul(line, '\n');
		fprintf(to, "%s ranktrace %s%s%.*s\n", begin, help->command, end > line ? " " : "", (int)(end - line),
			line);
	}
}

static void option_print(FILE *to, const struct argp_option *o)
{
	const char *open = o->flags & OPTION_ARG_OPTIONAL ? "[=" : "=", *close = *open == '[' ? "]" : "";
	int at = o->key < 128 ? fprintf(to, "  -%c, --%s", o->key, o->name) : fprintf(to, "      --%s", o->name);

	if (o->arg)
		at += fprintf(to, "%s%s%s", open, o->arg, close);
	if (at + 2 > INDENT)
		at = fprintf(to, "\n") - 1;
	fprintf(to, "%*s", INDENT - at, "");
	help_wrap(to, o->doc, INDENT, INDENT);
}

static size_t options_collect(const struct argp *of, const struct argp_option **to, size_t n)
{
	for (const struct argp_option *o = of->options; o && (o->name || o->doc); o++)
		if (n < OPTIONS_MAX && !(o->flags & OPTION_HIDDEN))
			to[n++] = o;
	for (const struct argp_child *c = of->children; c && c->argp; c++)
		n = options_collect(c->argp, to, n);
	return n;
}

static const char *const titles[] = { "What to look at", "Output",  "When to report", "Probes and their cost",
				      "Flight recorder", "Cluster", "Messages" };
#define N_TITLES ((int)(sizeof(titles) / sizeof(titles[0])))

/* The same for scripts/manuals.sh, fields between tabs: what man pages and completions are made of. */
static void table_print(FILE *to, const struct argp *of, const struct help *help)
{
	const struct argp common = { .options = help_options };
	const struct argp_option *all[OPTIONS_MAX];
	size_t n = options_collect(&common, all, options_collect(of, all, 0));

	for (const char *line = help->usage, *end; line; line = *end ? end + 1 : NULL) {
		end = strchrnul(line, '\n');
		fprintf(to, "usage\t%.*s\n", (int)(end - line), line);
	}
	fprintf(to, "doc\t%s\n", help->doc);
	for (int group = 0; group < N_TITLES; group++)
		for (size_t i = 0; i < n; i++) {
			const struct argp_option *o = all[i];
			char letter[2] = { o->key < 128 ? (char)o->key : '-', '\0' };

			if (o->group == group)
				fprintf(to, "option\t%s\t%s\t%s\t%s\t%s\t%s\n", titles[group], letter, o->name,
					o->arg ? o->arg : "-", o->flags & OPTION_ARG_OPTIONAL ? "optional" : "-",
					o->doc);
		}
}

void help_print(FILE *to, const struct argp *of, const struct help *help)
{
	const struct argp common = { .options = help_options };
	const struct argp_option *all[OPTIONS_MAX];
	size_t n = options_collect(&common, all, options_collect(of, all, 0));

	usage_print(to, help);
	fprintf(to, "\n");
	help_wrap(to, help->doc, 0, 0);
	for (int group = 0; group < N_TITLES; group++) {
		bool titled = false;

		for (size_t i = 0; i < n; i++) {
			if (all[i]->group != group)
				continue;
			if (!titled)
				fprintf(to, "\n%s:\n", titles[group]);
			titled = true;
			option_print(to, all[i]);
		}
	}
	fprintf(to, "\nExit codes: 'ranktrace --help'.\n");
}

/* --- parsing --- */

struct parse {
	const struct argp *of;
	const struct help *help;
	void *input;
};

static error_t help_option(int key, char *arg, struct argp_state *state)
{
	const struct parse *p = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = p->input; return 0;
	case 'h': help_print(stdout, p->of, p->help); break;
	case OPT_USAGE: usage_print(stdout, p->help); break;
	case 'V': version_print(); break;
	case OPT_TABLE: table_print(stdout, p->of, p->help); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	exit(stdout_check(EXIT_CLEAN));
}

void command_line_parse(const struct argp *of, const struct help *help, int argc, char **argv, unsigned flags,
			void *input)
{
	const struct argp_child children[] = { { of, 0, NULL, 0 }, { 0 } };
	const struct argp all = { help_options, help_option, NULL, NULL, children, NULL, NULL };
	struct parse p = { of, help, input };
	static char name[64];

	snprintf(name, sizeof(name), "ranktrace %s", help->command);
	argv[0] = name;
	argp_parse(&all, argc, argv, flags | ARGP_NO_HELP, 0, &p);
}

int stdout_check(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	log_error("standard output: %s", strerror(errno));
	return code <= EXIT_FINDING ? EXIT_OUTPUT : code;
}
