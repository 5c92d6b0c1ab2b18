/* SPDX-License-Identifier: Apache-2.0
 *
 * replay_main.c - `ranktrace replay` as a program of its own. It links without libbpf, libelf and libdw: what reads a
 * recording needs nothing of what makes one.
 */
#include "command.h"

int main(int argc, char **argv)
{
	return cmd_replay(argc, argv);
}
