/*
 * doctor.c - `warpsight doctor`: run the checks of doctor/ and print them, as text or JSON.
 * `warpsight status -e` does the same.
 *
 * What comes from the machine (paths, messages of the loader) is treated as data: made safe for a
 * terminal, quoted in JSON.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/doctor.h"
#include "cli/text.h"
#include "doctor/doctor.h"
#include "text/text.h"

enum { STATE_WIDTH = 10, TEXT_COLUMN = 28 };

static const char *const state_names[] = {"ok", "degraded", "missing"};

static void add_text_line(struct ws_text *out, const struct ws_check *check,
			  const struct ws_finding *finding, int width)
{
	struct ws_text shown = {0};

	ws_put_terminal_text(&shown, finding->found.text, finding->found.len);
	ws_text_printf(out, "%-*s%-*s", STATE_WIDTH, state_names[finding->health],
		       TEXT_COLUMN - STATE_WIDTH, check->name);
	ws_add_wrapped(out, shown.text, TEXT_COLUMN, TEXT_COLUMN, width);
	if (finding->health && finding->fix.len) {
		shown.len = 0;
		ws_text_puts(&shown, "fix: ");
		ws_put_terminal_text(&shown, finding->fix.text, finding->fix.len);
		ws_text_printf(out, "%*s", TEXT_COLUMN, "");
		ws_add_wrapped(out, shown.text, TEXT_COLUMN, TEXT_COLUMN, width);
	}
	ws_text_free(&shown);
}

static void add_json_entry(struct ws_text *out, const struct ws_check *check,
			   const struct ws_finding *finding, const char *separator)
{
	ws_text_puts(out, separator);
	ws_text_puts(out, "\n    {\"name\": ");
	ws_put_quoted_json(out, check->name, strlen(check->name));
	ws_text_printf(out, ", \"state\": \"%s\", \"needed\": %s, \"found\": ",
		       state_names[finding->health], ws_json_bool(finding->needed));
	ws_put_quoted_json(out, finding->found.text, finding->found.len);
	ws_text_puts(out, ", \"fix\": ");
	if (finding->health && finding->fix.len)
		ws_put_quoted_json(out, finding->fix.text, finding->fix.len);
	else
		ws_text_puts(out, "null");
	ws_text_puts(out, "}");
}

static void add_verdict(struct ws_text *out, const int counts[3], int blockers, int width)
{
	struct ws_text line = {0};

	if (blockers)
		ws_text_puts(&line,
			     "Nothing can be recorded here until what is missing above is fixed");
	else
		ws_text_puts(&line, "Programs can be recorded here");
	ws_text_printf(&line, ": %d checks ok, %d degraded, %d missing.", counts[0], counts[1],
		       counts[2]);
	ws_text_puts(out, "\n");
	ws_add_wrapped(out, line.text, 0, 0, width);
	ws_text_free(&line);
}

static void add_json_head(struct ws_text *out)
{
	struct utsname utsname;

	uname(&utsname);
	ws_text_puts(out, "{\n  \"version\": \"" WS_VERSION "\",\n  \"host\": ");
	ws_put_quoted_json(out, utsname.nodename, strlen(utsname.nodename));
	ws_text_puts(out, ",\n  \"checks\": [");
}

int ws_show_doctor(bool json)
{
	int counts[3] = {0}, blockers = 0, width = ws_get_output_width();
	const char *separator = "";
	struct ws_text out = {0};

	if (json)
		add_json_head(&out);
	for (const struct ws_check *check = ws_doctor_checks; check->name; check++) {
		struct ws_finding finding = {0};

		check->examine(&finding);
		if (json)
			add_json_entry(&out, check, &finding, separator);
		else
			add_text_line(&out, check, &finding, width);
		separator = ",";
		counts[finding.health]++;
		blockers += finding.needed && finding.health == WS_HEALTH_MISSING;
		ws_finding_free(&finding);
	}
	if (json)
		ws_text_printf(&out, "\n  ],\n  \"usable\": %s\n}\n", ws_json_bool(!blockers));
	else
		add_verdict(&out, counts, blockers, width);
	fwrite(out.text, 1, out.len, stdout);
	ws_text_free(&out);
	if (blockers)
		return WS_EXIT_FAIL;
	return WS_EXIT_OK;
}

struct doctor_opts {
	bool json;
};

static int run_doctor(void *opts, int argc, char **argv)
{
	const struct doctor_opts *options = opts;

	if (argc) {
		ws_say("doctor takes no argument, but '%s' is given", argv[0]);
		return WS_EXIT_USAGE;
	}
	return ws_show_doctor(options->json);
}

static const struct ws_opt doctor_options[] = {
	{"json", 0, WS_OPT_FLAG, offsetof(struct doctor_opts, json), .help = "Write JSON."},
	{0},
};

const struct ws_command ws_cmd_doctor = {
	.name = "doctor",
	.summary = "Check what this machine lets warpsight record, and say what to change.",
	.usage = "[options]",
	.details = "Each check is ok, degraded (the feature works in part, or costs more) or "
		   "missing, with what was found and how to fix it. A check that could not find "
		   "out is not ok. The exit status is 0 when nothing that recording needs is "
		   "missing, else 1.",
	.opts = doctor_options,
	.opts_size = sizeof(struct doctor_opts),
	.run = run_doctor,
};
