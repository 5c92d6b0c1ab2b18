/* SPDX-License-Identifier: Apache-2.0
 *
 * screen.c - see screen.h.
 */
#include "top/screen.h"

#define NCURSES_NOMACROS 1 /* functions have addresses */
#include <dlfcn.h>
#include <errno.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top/view.h"

#define LIBRARY "libncursesw.so.6"
#define ESCAPE_MS 25 /* a terminal sends the rest of a key's sequence by then */
/* clang-format off */
#define FUNCTIONS(X) \
	X(newterm) X(endwin) X(delscreen) X(raw) X(noecho) X(nonl) X(keypad) X(nodelay) X(curs_set) X(start_color) \
	X(use_default_colors) X(init_pair) X(wmove) X(waddnstr) X(wattrset) X(wnoutrefresh) X(doupdate) X(wgetch) \
	X(getmaxx) X(getmaxy) X(clearok) X(set_escdelay) X(COLOR_PAIR)
/* clang-format on */

static struct {
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
	WINDOW **standard; /* the library's stdscr, which newterm() sets */
	FILE *tty;
	SCREEN *screen;
	WINDOW *window;
	chtype inks[INKS];
} s;

static bool library_open(void)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool all = lib;

#define X(name) all = all && (*(void **)&s.name = dlsym(lib, #name));
	FUNCTIONS(X)
#undef X
	return all && (s.standard = dlsym(lib, "stdscr"));
}

static void inks_make(void)
{
	static const struct {
		enum ink ink;
		short colour;
		chtype more;
	} colours[] = { { INK_DIM, -1, A_DIM },
			{ INK_HEAD, -1, A_BOLD },
			{ INK_GOOD, COLOR_GREEN, 0 },
			{ INK_WARNING, COLOR_YELLOW, 0 },
			{ INK_BAD, COLOR_RED, A_BOLD } };
	bool has = s.start_color() == OK && s.use_default_colors() == OK && !getenv("NO_COLOR");

	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++) {
		s.inks[colours[i].ink] = colours[i].more;
		if (!has || colours[i].colour < 0)
			continue;
		s.init_pair((short)(i + 1), colours[i].colour, -1);
		s.inks[colours[i].ink] |= (chtype)s.COLOR_PAIR((int)i + 1);
	}
}

int screen_open(char *error, size_t size)
{
	snprintf(error, size, "no terminal: 'top' draws on one; --batch prints the table once");
	s.tty = fopen("/dev/tty", "r+e");
	if (!s.tty)
		return -ENOTTY;
	if (!library_open()) {
		snprintf(error, size, LIBRARY " is missing: install libncursesw6; --batch prints the table without it");
		return -ENOTSUP;
	}
	s.screen = s.newterm(NULL, s.tty, s.tty);
	s.window = *s.standard;
	if (!s.screen) {
		snprintf(error, size, "TERM=%s is no terminal that can be drawn on; --batch prints the table once",
			 getenv("TERM") ? getenv("TERM") : "");
		return -ENOTTY;
	}
	s.raw();
	s.noecho();
	s.nonl();
	s.keypad(s.window, true);
	s.nodelay(s.window, true);
	s.curs_set(0);
	s.set_escdelay(ESCAPE_MS);
	inks_make();
	return 0;
}

void screen_close(void)
{
	if (!s.screen)
		return;
	s.endwin();
	s.delscreen(s.screen);
	s.screen = NULL;
	fclose(s.tty);
}

int screen_fd(void)
{
	return fileno(s.tty);
}

void screen_size(int *ret_rows, int *ret_cols)
{
	*ret_rows = s.getmaxy(s.window);
	*ret_cols = s.getmaxx(s.window);
}

static chtype look_of(const struct cell *c)
{
	return s.inks[c->ink] | (c->reverse ? A_REVERSE : 0);
}

static void row_show(const struct cell *row, int cols)
{
	char run[CANVAS_COLS_MAX];

	for (int from = 0, n; from < cols; from += n) {
		for (n = 0; from + n < cols && look_of(&row[from + n]) == look_of(&row[from]); n++)
			run[n] = row[from + n].c;
		s.wattrset(s.window, (int)look_of(&row[from]));
		s.waddnstr(s.window, run, n);
	}
}

void screen_show(const struct canvas *c)
{
	int rows, cols;

	screen_size(&rows, &cols);
	for (int i = 0; i < c->rows && i < rows; i++) {
		s.wmove(s.window, i, 0);
		row_show(&c->cells[(size_t)i * c->cols], c->cols < cols ? c->cols : cols);
	}
	s.wnoutrefresh(s.window);
	s.doupdate();
}

void screen_spoilt(void)
{
	s.clearok(s.window, true);
}

int screen_key(void)
{
	static const struct {
		int from, to;
	} keys[] = { { KEY_UP, TOP_KEY_UP },
		     { KEY_DOWN, TOP_KEY_DOWN },
		     { KEY_LEFT, TOP_KEY_LEFT },
		     { KEY_RIGHT, TOP_KEY_RIGHT },
		     { KEY_PPAGE, TOP_KEY_PAGE_UP },
		     { KEY_NPAGE, TOP_KEY_PAGE_DOWN },
		     { KEY_HOME, TOP_KEY_HOME },
		     { KEY_END, TOP_KEY_END },
		     { KEY_ENTER, TOP_KEY_ENTER },
		     { '\r', TOP_KEY_ENTER },
		     { '\n', TOP_KEY_ENTER },
		     { KEY_BACKSPACE, TOP_KEY_BACK },
		     { 127, TOP_KEY_BACK },
		     { '\b', TOP_KEY_BACK },
		     { 27, TOP_KEY_ESCAPE },
		     { KEY_RESIZE, SCREEN_RESIZED },
		     { 3, 'q' },
		     { ERR, SCREEN_NO_KEY } };
	int key = s.wgetch(s.window);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].from == key)
			return keys[i].to;
	return key >= ' ' && key < 127 ? key : 0;
}
