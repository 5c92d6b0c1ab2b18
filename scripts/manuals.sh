#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes man pages and completions (bash, zsh, fish) from what the program's own option tables say:
#     scripts/manuals.sh build/ranktrace OUT
# leaves OUT/man1/*.1, OUT/bash/ranktrace, OUT/zsh/_ranktrace, OUT/fish/ranktrace.fish. Nothing is written by hand but
# the frame, so that an option is in all of them or in none.
set -euo pipefail
export LC_ALL=C
program=$1 out=$2
root=$(cd "$(dirname "$0")/.." && pwd)
RELEASED=2026-11-24 # of the version below
version=$("$program" --version | cut -d' ' -f2)
mkdir -p "$out/man1" "$out/bash" "$out/zsh" "$out/fish"

# name<TAB>help of each command
commands() { sed -nE 's/^COMMAND\([a-z_]+, "([a-z]+)", "(.*)"\)$/\1\t\2/p' "$root/user/commands.def"; }
options() { "$program" "$1" --print-options; }

# Text of troff: no line begins with a dot, a minus is one that can be copied.
escape='function t(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.'"'"']/) s = "\\&" s; return s }'

# Lines of 78 columns; what goes on must not begin like a request.
wrapped() {
	awk '/^\./ { print; next }
		{ line = ""
		for (i = 1; i <= NF; i++) {
			if (line != "" && length(line) + 1 + length($i) > 78) { print line; line = $i } else
				line = line (line == "" ? "" : " ") $i
			if (line == $i && i > 1 && line ~ /^[.'"'"']/) line = "\\&" line
		}
		print line }'
}

head_of() { printf '.TH %s 1 %s "ranktrace %s" "User Commands"\n' "${1^^}" "$RELEASED" "$version"; }

exit_codes() {
	printf '.SH EXIT STATUS\n'
	"$program" --help | sed -n '/^Exit codes:/,$p' | tail -n +2 |
		awk "$escape"' { key = $1; sub(/^ *[^ ]+ +/, ""); print ".TP\n.B " key "\n" t($0) }'
}

command_page() {
	local name=$1 help=$2
	head_of "ranktrace-$name"
	printf '.SH NAME\nranktrace\\-%s \\- %s\n' "$name" "$(awk "$escape"' { print t($0) }' <<< "$help")"
	options "$name" | awk -F'\t' -v name="$name" "$escape"'
		$1 == "usage" { print (used++ ? ".br" : ".SH SYNOPSIS"); print ".B ranktrace " t(name); print t($2) }
		$1 == "doc" { print ".SH DESCRIPTION"; print t($2) }
		$1 == "option" {
			if ($2 != group) { if (!group) print ".SH OPTIONS"; print ".SS " t($2); group = $2 }
			print ".TP"
			line = ($3 == "-" ? "" : "\\fB\\-" $3 "\\fR, ") "\\fB\\-\\-" t($4) "\\fR"
			if ($5 != "-") line = line ($6 == "optional" ? "[" : "") "=\\fI" t($5) "\\fR" \
				($6 == "optional" ? "]" : "")
			print line
			print t($7)
		}'
	exit_codes
	printf '.SH SEE ALSO\n.BR ranktrace (1)\n'
}

main_page() {
	head_of ranktrace
	printf '.SH NAME\nranktrace \\- says which rank blocks or slows a distributed GPU job, and why\n'
	printf '.SH SYNOPSIS\n.B ranktrace\n.I COMMAND\n[OPTIONS]\n.SH DESCRIPTION\n'
	printf 'Traces live NCCL jobs from outside: no restart, no environment variable, no change of code.\n'
	printf '.SH COMMANDS\n'
	commands | awk -F'\t' "$escape"' { print ".TP\n.BR ranktrace\\-" $1 " (1)\n" t($2) }'
	exit_codes
	printf '.SH SEE ALSO\n'
	commands | awk -F'\t' '{ line = line sep ".BR ranktrace\\-" $1 " (1)"; sep = " ,\n" }
		END { print line }'
}

bash_completion() {
	local name help
	printf '# bash completion of ranktrace %s: made from its option tables\n_ranktrace() {\n' "$version"
	# shellcheck disable=SC2016
	printf '\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= files=\n'
	printf '\tif ((COMP_CWORD == 1)); then\n\t\twords="%s --help --version"\n\telse\n' \
		"$(commands | cut -f1 | tr '\n' ' ')"
	# shellcheck disable=SC2016
	printf '\t\tcase ${COMP_WORDS[1]} in\n'
	while IFS=$'\t' read -r name help; do
		printf '\t\t%s) words="%s"\n\t\t\tcase $prev in\n' "$name" \
			"$(options "$name" | awk -F'\t' '$1 == "option" { printf "%s--%s", sep, $4; sep = " " }')"
		options "$name" | awk -F'\t' '$1 == "option" && $5 ~ /FILE/ {
			print "\t\t\t--" $4 ($3 == "-" ? "" : "|-" $3) ") files=1 ;;" }'
		printf '\t\t\tesac ;;\n'
	done < <(commands)
	printf '\t\tesac\n\tfi\n'
	# shellcheck disable=SC2016
	printf '\tif [[ -n $files || $cur != -* && COMP_CWORD -gt 1 ]]; then\n\t\tcompopt -o filenames 2>/dev/null\n'
	printf '\t\tmapfile -t COMPREPLY < <(compgen -f -- "$cur")\n\telse\n'
	# shellcheck disable=SC2016
	printf '\t\tmapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")\n\tfi\n}\n'
	printf 'complete -F _ranktrace ranktrace\n'
}

zsh_completion() {
	local name help
	# shellcheck disable=SC2016
	printf '#compdef ranktrace\n# made from the option tables of ranktrace %s\n' "$version"
	printf 'local -a commands\ncommands=(\n'
	commands | awk -F'\t' -v q="'" '{ gsub(q, q "\\" q q, $2); gsub(/:/, "\\:", $2); print "\t" q $1 ":" $2 q }'
	printf ')\nif ((CURRENT == 2)); then\n\t_describe command commands\n\treturn\nfi\ncase $words[2] in\n'
	while IFS=$'\t' read -r name help; do
		printf '%s)\n\tshift words\n\t((CURRENT--))\n\t_arguments -s \\\n' "$name"
		options "$name" | awk -F'\t' -v q="'" '$1 == "option" {
			doc = $7; gsub(q, q "\\" q q, doc); gsub(/\[|\]|:/, "\\\\&", doc)
			arg = $5 == "-" ? "" : ":" $5 ":" ($5 ~ /FILE/ ? "_files" : " ")
			eq = $5 == "-" ? "" : "="
			if ($3 != "-") print "\t\t" q "*-" $3 "[" doc "]" arg q " \\"
			print "\t\t" q "*--" $4 eq "[" doc "]" arg q " \\" }'
		printf "\t\t'*:file:_files'\n\t;;\n"
	done < <(commands)
	printf 'esac\n'
}

fish_completion() {
	local name help
	printf '# made from the option tables of ranktrace %s\n' "$version"
	printf 'complete -c ranktrace -n __fish_use_subcommand -f\n'
	while IFS=$'\t' read -r name help; do
		printf "complete -c ranktrace -n __fish_use_subcommand -a %s -d '%s'\n" "$name" "${help//\'/\\\'}"
		options "$name" | awk -F'\t' -v q="'" -v name="$name" '$1 == "option" {
			doc = $7; gsub(/\\/, "\\\\", doc); gsub(q, "\\" q, doc)
			print "complete -c ranktrace -n " q "__fish_seen_subcommand_from " name q " -l " $4 \
				($3 == "-" ? "" : " -s " $3) ($5 == "-" ? "" : " -r") " -d " q doc q }'
	done < <(commands)
}

main_page | wrapped > "$out/man1/ranktrace.1"
while IFS=$'\t' read -r name help; do
	command_page "$name" "$help" | wrapped > "$out/man1/ranktrace-$name.1"
done < <(commands)
bash_completion > "$out/bash/ranktrace"
zsh_completion > "$out/zsh/_ranktrace"
fish_completion > "$out/fish/ranktrace.fish"
