/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.h - a terminal, by ncurses: shows a canvas, reads keys. The library is opened when `top` begins, as no other
 * command needs it.
 */
#ifndef RANKTRACE_TOP_SCREEN_H
#define RANKTRACE_TOP_SCREEN_H

#include "top/canvas.h"

#define SCREEN_NO_KEY (-1)
#define SCREEN_RESIZED (-2)

/* Takes the terminal of this process, whatever its standard streams are. 0, or -errno with the message in `error`:
 * -ENOTSUP no library, -ENOTTY no terminal, or one that cannot be drawn on. */
int screen_open(char *error, size_t size);
/* Gives it back as it was; nothing without an open one. */
void screen_close(void);
/* To be polled for keys. */
int screen_fd(void);
void screen_size(int *ret_rows, int *ret_cols);
void screen_show(const struct canvas *c);
/* Everything is drawn again next time: somebody else wrote to the terminal. */
void screen_spoilt(void);
/* A character, enum top_key, SCREEN_RESIZED or SCREEN_NO_KEY; never waits. */
int screen_key(void);

#endif
