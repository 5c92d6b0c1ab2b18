/* SPDX-License-Identifier: Apache-2.0
 *
 * notify.c - `ranktrace notify`: notifies chat services and other tools of incidents: at once, again until somebody
 * acknowledges, and at the end.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/confine.h"
#include "base/log.h"
#include "base/write_whole.h"
#include "cmd/help.h"
#include "command.h"
#include "notify/lines.h"
#include "notify/rules.h"
#include "notify/send.h"
#include "notify/state.h"

#define TURN_MS 200
#define ACKS_EVERY_MS 1000
#define ALIVE_EVERY_MS 30000 /* the state is saved so often, that others see that somebody runs */
#define ALIVE_MS 120000      /* of one older than that nothing is known */
#define END_MS 20000         /* for messages under way when the input ends */

enum { OPT_AGAIN = 2000, OPT_WARNING, OPT_STATE, OPT_RULES, OPT_EVENTS, OPT_ACK, OPT_NPD };

struct notify_args {
	const char *to[CHANNELS_MAX];
	int n_to;
	const char *file, *state, *rules, *events, *acknowledge;
	bool npd;
	struct notice_rules schedule;
};

struct run {
	const struct notify_args *args;
	struct notices all;
	struct sender *sender;
	struct rules rules;
	struct lines lines;
	int events_fd; /* -1 none */
	long acks_at;
	int64_t now_ms, acks_ms, saved_ms;
	bool save_failed;
	char also[256];
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static const struct argp_option notify_options[] = {
	{ "to", 't', "FORMAT=FILE", 0,
	  "send to this webhook (may repeat): FORMAT wecom, dingtalk, feishu, slack, json or otlp (log events of "
	  "OpenTelemetry); FILE has its URL, and in a second line the bot's secret, of otlp a header",
	  HELP_OUTPUT },
	{ "health-events", OPT_EVENTS, "FILE", 0, "append NVSentinel's HealthEvents as JSON lines", HELP_OUTPUT },
	{ "again", OPT_AGAIN, "MIN,...", 0, "again after so many minutes, until acknowledged (5,10,20,40,80)",
	  HELP_LIMITS },
	{ "warning-after", OPT_WARNING, "SEC", 0,
	  "a warning is notified of when it lasts so long (300; no: never); a critical finding at once", HELP_LIMITS },
	{ "rules", OPT_RULES, "FILE", 0, "what may be done besides (docs/operate.md); without it nothing", HELP_WHAT },
	{ "acknowledge", OPT_ACK, "ID", 0, "somebody looks after this finding: not again, and exit", HELP_WHAT },
	{ "npd", OPT_NPD, 0, 0, "as a plugin of node-problem-detector: one line, exit 1 for a critical finding",
	  HELP_WHAT },
	{ "state", OPT_STATE, "DIR", 0, "what was sent whom (" NOTIFY_DIR ")", HELP_OUTPUT },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ 0 },
};

static void again_set(struct argp_state *state, struct notice_rules *r, const char *text)
{
	char *end = (char *)text;

	r->n_again = 0;
	while (*end && r->n_again < AGAIN_MAX) {
		const char *at = end;
		double min = strtod(at, &end);

		r->again_ms[r->n_again] = (int64_t)(min * 60000);
		if (end == at || !(min > 0) || min > 1e6 || (*end && *end != ',') ||
		    (r->n_again && r->again_ms[r->n_again] <= r->again_ms[r->n_again - 1]))
			argp_error(state, "--again: '%s' is no list of ascending minutes, as 5,10,20", text);
		r->n_again++;
		end += *end == ',';
	}
}

static void warning_set(struct argp_state *state, struct notice_rules *r, const char *text)
{
	char *end;
	double s = strtod(text, &end);

	r->warning_after_ms = strcmp(text, "no") ? (int64_t)(s * 1000) : -1;
	if (strcmp(text, "no") && (end == text || *end || !(s >= 0) || s > 1e6))
		argp_error(state, "--warning-after: '%s' is neither a number of seconds nor 'no'", text);
}

static void ends_check(struct argp_state *state, const struct notify_args *a)
{
	if (a->npd || a->acknowledge)
		return;
	if (!a->n_to && !a->events && !a->rules)
		argp_error(state, "notify whom? Give --to FORMAT=FILE, --health-events or --rules");
	if (!a->file)
		argp_error(state, "of what? Give a file of findings ('watch -o FILE.jsonl'), or - for standard input");
}

static error_t notify_option(int key, char *arg, struct argp_state *state)
{
	struct notify_args *a = state->input;

	switch (key) {
	case 't':
		if (a->n_to == CHANNELS_MAX)
			argp_error(state, "at most %d channels", CHANNELS_MAX);
		a->to[a->n_to++] = arg;
		return 0;
	case OPT_AGAIN: again_set(state, &a->schedule, arg); return 0;
	case OPT_WARNING: warning_set(state, &a->schedule, arg); return 0;
	case OPT_STATE: a->state = arg; return 0;
	case OPT_RULES: a->rules = arg; return 0;
	case OPT_EVENTS: a->events = arg; return 0;
	case OPT_ACK: a->acknowledge = arg; return 0;
	case OPT_NPD: a->npd = true; return 0;
	case 'q': log_quiet = true; return 0;
	case ARGP_KEY_ARG:
		if (a->file)
			argp_error(state, "one file of findings at a time");
		a->file = arg;
		return 0;
	case ARGP_KEY_END: ends_check(state, a); return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static int64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- what else than chat --- */

/* Once when it is notified of, once when it is over. */
static void events_write(struct run *r)
{
	const int c = CHANNEL_EVENTS;
	enum notice_event event;
	struct notice *n;

	while (r->events_fd >= 0 && (n = notices_next(&r->all, c, &event))) {
		char *text = event == NOTICE_AGAIN ? NULL : emit_health_event(n, event == NOTICE_RESOLVED);

		if (text && (write_whole(r->events_fd, text, strlen(text)) || write_whole(r->events_fd, "\n", 1)))
			log_warn("%s: %s: a health event is lost", r->args->events, strerror(errno));
		cJSON_free(text);
		notice_sent(&r->all, n, c, event);
	}
}

static void rules_do(struct run *r)
{
	for (struct notice *n = r->all.all; n; n = n->next) {
		const struct rule *rule = rules_find(&r->rules, n);

		if (!rule_is_due(rule, n, r->now_ms))
			continue;
		rule_act(rule, n); /* once: it is not known what a second time would do */
		n->acted = true;
		r->all.changed = true;
	}
}

static const char *also(void *of, const struct notice *n)
{
	struct run *r = of;
	const struct rule *rule = rules_find(&r->rules, n);

	if (!rule)
		return NULL;
	if (rule->action == RULE_NOTIFY)
		snprintf(r->also, sizeof(r->also), "owner: %s", rule->owner);
	else if (n->acted)
		snprintf(r->also, sizeof(r->also), "owner: %s; its host was drained", rule->owner);
	else
		snprintf(r->also, sizeof(r->also),
			 "owner: %s; its host is drained %" PRId64 " s after the first message, unless acknowledged",
			 rule->owner, rule->timeout_ms / 1000);
	return r->also;
}

/* --- turns --- */

static void line_take(void *of, const char *line)
{
	struct run *r = of;

	if (notices_take(&r->all, line, r->now_ms) && r->all.n_bad == 1)
		log_warn("%s: a line is no finding; such lines are left out", r->args->file);
}

static void save(struct run *r)
{
	int n, err;
	const char *const *names = sender_names(r->sender, &n);

	if (!r->all.changed && r->now_ms - r->saved_ms < ALIVE_EVERY_MS)
		return;
	err = notify_state_save(r->args->state, &r->all, names, n, r->now_ms);
	if (err && !r->save_failed)
		log_warn("%s: %s: after a restart some are sent again", r->args->state, strerror(-err));
	r->save_failed = err;
	r->all.changed = err;
	r->saved_ms = r->now_ms;
}

static void turn(struct run *r)
{
	r->now_ms = wall_ms();
	lines_take(&r->lines, line_take, r);
	if (r->now_ms - r->acks_ms >= ACKS_EVERY_MS) {
		r->acks_ms = r->now_ms;
		notify_acks_take(r->args->state, &r->all, &r->acks_at);
	}
	notices_turn(&r->all, r->now_ms);
	rules_do(r);
	events_write(r);
	sender_turn(r->sender, &r->all, r->now_ms, also, r);
	save(r);
}

static void run(struct run *r)
{
	int64_t end_ms = INT64_MAX;

	while (!stop && wall_ms() < end_ms) {
		turn(r);
		if (r->lines.ended && end_ms == INT64_MAX)
			end_ms = wall_ms() + END_MS;
		if (r->lines.ended && sender_idle(r->sender))
			break;
		sender_wait(r->sender, r->lines.fd == STDIN_FILENO && !r->lines.ended ? STDIN_FILENO : -1, TURN_MS);
	}
	r->all.changed = true;
	save(r);
}

/* --- begin --- */

static int failed(int code, const char *what)
{
	log_error("%s", what);
	return code;
}

static int channels_open(struct run *r)
{
	char error[512];

	r->sender = sender_new(error, sizeof(error));
	if (!r->sender)
		return failed(EXIT_UNSUPPORTED, error);
	for (int i = 0; i < r->args->n_to; i++)
		if (sender_add(r->sender, r->args->to[i], error, sizeof(error)))
			return failed(EXIT_USAGE, error);
	if (r->args->rules && rules_read(&r->rules, r->args->rules, error, sizeof(error)))
		return failed(EXIT_USAGE, error);
	if (!r->args->events)
		return EXIT_CLEAN;
	r->events_fd = open(r->args->events, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
	snprintf(error, sizeof(error), "%s: %s", r->args->events, strerror(errno));
	return r->events_fd < 0 ? failed(EXIT_USAGE, error) : EXIT_CLEAN;
}

static int state_open(struct run *r)
{
	int n, err = notify_state_make(r->args->state);
	const char *const *names = sender_names(r->sender, &n);
	char error[512];

	if (!err)
		err = notify_state_load(r->args->state, &r->all, names, n);
	snprintf(error, sizeof(error), "%s: %s", r->args->state,
		 err == -EINVAL ? NOTIFY_STATE " is damaged; move it away, and what is open is sent again"
				: strerror(-err));
	return err ? failed(EXIT_USAGE, error) : EXIT_CLEAN;
}

static int relay(const struct notify_args *a)
{
	struct run *r = calloc(1, sizeof(*r));
	int code = r ? EXIT_CLEAN : EXIT_INTERNAL;

	if (!r)
		return code;
	*r = (struct run){ .args = a, .all.rules = a->schedule, .events_fd = -1 };
	code = channels_open(r);
	code = code ? code : state_open(r);
	if (!code && lines_open(&r->lines, a->file))
		code = EXIT_INTERNAL;
	if (!code && confine_bus())
		code = failed(EXIT_UNSUPPORTED, "giving up rights");
	if (!code)
		run(r);
	lines_close(&r->lines);
	sender_free(r->sender);
	notices_free(&r->all);
	free(r);
	return code;
}

/* node-problem-detector: 0 well, 1 a problem, else unknown. */
static int npd(const struct notify_args *a)
{
	struct notices all = { 0 };
	int64_t age_ms = wall_ms() - notify_state_saved_ms(a->state);
	char line[81];
	int code;

	if (age_ms > ALIVE_MS || notify_state_load(a->state, &all, NULL, 0)) {
		printf("ranktrace: no 'ranktrace notify' runs with this state\n");
		return stdout_check(EXIT_USAGE);
	}
	emit_npd(line, notices_worst(&all));
	printf("%s\n", line);
	code = notices_worst(&all) ? EXIT_FINDING : EXIT_CLEAN;
	notices_free(&all);
	return stdout_check(code);
}

static int acknowledge(const struct notify_args *a)
{
	int err = strlen(a->acknowledge) < FINDING_ID_MAX && *a->acknowledge && !strpbrk(a->acknowledge, " \t\n")
			  ? notify_ack(a->state, a->acknowledge)
			  : -EINVAL;

	if (err)
		log_error("%s: %s", err == -EINVAL ? a->acknowledge : a->state,
			  err == -EINVAL ? "no id of a finding" : strerror(-err));
	return err ? EXIT_USAGE : EXIT_CLEAN;
}

int cmd_notify(int argc, char **argv)
{
	static const struct argp argp = { notify_options, notify_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"notify", "[OPTIONS] --to FORMAT=FILE... FINDINGS.jsonl\n--acknowledge ID | --npd",
		"Sends findings that need a person to chat services: one message an incident, again until it is "
		"acknowledged, and one when it is over. FINDINGS is what 'watch -o' writes and is followed; -: "
		"standard input, as of 'ranktrace incidents --follow --json'."
	};
	struct sigaction on = { .sa_handler = on_signal };
	struct notify_args a = { .state = NOTIFY_DIR,
				 .schedule = { .again_ms = { 300000, 600000, 1200000, 2400000, 4800000 },
					       .n_again = 5,
					       .warning_after_ms = 300000 } };

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	if (a.npd)
		return npd(&a);
	if (a.acknowledge)
		return acknowledge(&a);
	sigaction(SIGTERM, &on, NULL);
	sigaction(SIGINT, &on, NULL);
	signal(SIGPIPE, SIG_IGN);
	return relay(&a);
}
