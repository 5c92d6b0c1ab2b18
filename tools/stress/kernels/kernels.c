/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.c - stress.ptx as a string of the binary. The assembler reads it: an edit of the text needs no generator.
 */
#include "tools/stress/kernels/kernels.h"

__asm__(".section .rodata\n"
	".global kernels_ptx\n"
	"kernels_ptx:\n"
	".incbin \"tools/stress/kernels/stress.ptx\"\n"
	".byte 0\n"
	".previous\n");
