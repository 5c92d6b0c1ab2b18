#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest that test_packages.py boots: the installed service as its user meets it. Prints "ok: WHAT" for each thing
# that holds; the first that does not ends it with "FAILED: WHY". What is compared outside follows "PROC".
exec > /mnt/guest/output 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
conf=/etc/ranktrace.conf

end() {
	sync
	: > /mnt/guest/done
	poweroff -f
}

failed() {
	echo "FAILED: $1"
	systemctl status ranktrace --no-pager -n 0
	journalctl -u ranktrace --no-pager -n 60
	end
	exit 1
}

within() { # seconds, command...
	local end=$((SECONDS + $1))
	shift
	until "$@" > /dev/null 2>&1; do
		((SECONDS < end)) || return 1
		sleep 0.5
	done
}

journal() { journalctl -u ranktrace -o cat --no-pager; }
says() { journal | grep -qE "$1"; }
active() { [[ $(systemctl show -p ActiveState --value ranktrace) = active ]]; }
ended() { [[ $(systemctl show -p ActiveState --value ranktrace) = failed ]]; }

processes() {
	local p
	for p in /proc/[0-9]*; do
		[[ $(cat "$p/comm" 2> /dev/null) = ranktrace* ]] || continue
		awk -v ORS=' ' '/^(Name|Uid|CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp):/ { print $1 $2 }' "$p/status"
		echo
	done | sed 's/^/PROC /'
}

echo "kernel $(uname -r), $(systemctl --version | head -n 1), Debian $(cat /etc/debian_version)"
within 300 active || failed "the service is not up after a boot"
echo "ok: it is up after a boot, at version $(ranktrace --version)"

ranktrace sim job --ranks 4 --steps 100000 --fault hang:rank=2,step=20,sec=600 > /tmp/job.log 2>&1 &
job=$!
within 240 says '(stall|hang)  rank 2 has not entered' ||
	{ cat /tmp/job.log; failed "the rank that hangs is not found"; }
echo "ok: found: $(journal | grep -m 1 'rank 2 has not entered')"
within 240 bash -c 'ls /var/lib/ranktrace/*.rtr' || failed "no flight was written"
flights=(/var/lib/ranktrace/*.rtr)
echo "ok: a flight: ${flights[0]}"
processes
kill $job

echo 'hang-limit = 2' >> $conf
systemctl reload ranktrace
within 120 says 'changed: hang-limit' || failed "a reload does not take a changed limit"
echo "ok: a reload: $(journal | grep -m 1 'changed: hang-limit')"

before=$(systemctl show -p MainPID --value ranktrace)
dpkg -i /mnt/guest/new.deb > /tmp/upgrade.log 2>&1 || { cat /tmp/upgrade.log; failed "the upgrade"; }
within 300 active || failed "it is not up after the upgrade"
[[ $(systemctl show -p MainPID --value ranktrace) != "$before" ]] || failed "the old program still runs"
grep -q '^hang-limit = 2' $conf || failed "the upgrade took the configuration away"
dpkg-query -W ranktrace | grep -q upgraded || failed "it is still $(dpkg-query -W ranktrace)"
echo "ok: upgraded to $(dpkg-query -W -f='${Version}' ranktrace), restarted, the configuration kept"

echo 'hang-limt = 3' >> $conf
systemctl restart ranktrace
within 300 ended || failed "it runs with a wrong configuration"
line=$(wc -l < $conf)
says "$conf:$line: 'hang-limt' is not a setting" || failed "what is wrong in the configuration is not said"
echo "ok: refused: $(journal | grep -m 1 -o "$conf:$line: [^;]*")"
sed -i '$d' $conf
systemctl restart ranktrace
within 300 active || failed "it does not start again"

dpkg -r ranktrace-simjob ranktrace > /tmp/remove.log 2>&1 || { cat /tmp/remove.log; failed "the removal"; }
[[ ! -e /usr/bin/ranktrace && -e $conf && -d /var/lib/ranktrace ]] || failed "a removal takes the program, nothing else"
[[ -z $(pgrep -x ranktrace) ]] || failed "it runs on after its removal"
dpkg -P ranktrace ranktrace-simjob > /tmp/purge.log 2>&1 || { cat /tmp/purge.log; failed "the purge"; }
left=$(find / -xdev -iname '*ranktrace*' ! -path '/mnt/*' ! -path '/proc/*' ! -path '/var/log/*' ! -path '/tmp/*' \
	! -path '/sys/*' ! -path '/etc/systemd/system/ranktrace.service.d*' 2> /dev/null)
[[ -z $left ]] || failed "left after a purge: $left"
echo "ok: removed, purged: nothing is left"
end
