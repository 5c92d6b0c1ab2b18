/* SPDX-License-Identifier: Apache-2.0
 *
 * test_web_config.c - the web configuration file: what is in it, and what is said of each thing that is wrong; which
 * passwords are right, and how much time wrong ones get.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "metrics/server_auth.h"
#include "metrics/web_config.h"

/* "open sesame" */
#define SESAME_4 "$2y$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy"
#define SESAME_10 "$2y$10$abcdefghijklmnopqrstuu4SuEsu2LsUrAYUpWQHLMMc4GV5pZTxK"
#define LETTERS "abcdefghijklmnopqrstuuabcdefghijklmnopqrstuvwxyz01234"

static char folder[] = "/tmp/ranktrace-web-XXXXXX", path[64], error[512];
static struct web_config web;

static void file_write(const char *name, const char *text)
{
	char at[128];
	FILE *f;

	snprintf(at, sizeof(at), "%s/%s", folder, name);
	f = fopen(at, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int config(const char *text)
{
	web_config_free(&web);
	file_write("web.yml", text);
	return web_config_read(path, &web, error, sizeof(error));
}

static void keys_are_read(void **state)
{
	char at[128];

	(void)state;
	assert_int_equal(config("# of this node\n"
				"tls_server_config:\n  cert_file: cert.pem\n  key_file: \"/keys/key.pem\"\n\n"
				"basic_auth_users:\n  prom: $2b$10$" LETTERS "\n  'o ps': '$2y$04$" LETTERS "'\n"),
			 0);
	snprintf(at, sizeof(at), "%s/cert.pem", folder);
	assert_string_equal(web.cert.path, at);
	assert_string_equal(web.key.path, "/keys/key.pem");
	assert_int_equal(web.cert.line, 3);
	assert_int_equal(web.n_users, 2);
	assert_string_equal(web.users[0].name, "prom");
	assert_string_equal(web.users[1].name, "o ps");
	assert_string_equal(web.users[1].hash, "$2y$04$" LETTERS);
	assert_int_equal(config("{basic_auth_users: {a: $2a$14$" LETTERS "}}"), 0);
	assert_null(web.cert.path);
	assert_int_equal(web.n_users, 1);
	for (const char *const *none = (const char *const[]){ "", "# nothing\n", "---\n{}\n", NULL }; *none; none++)
		assert_int_equal(config(*none), 0);
	assert_int_equal(web.n_users, 0);
}

static const struct {
	const char *text, *said;
} wrong[] = {
	{ "tls_config:\n  a: b\n",
	  ":1: 'tls_config' is not served here; allowed are tls_server_config and basic_auth_users" },
	{ "tls_server_config:\n  cert_file: a\n  client_ca_file: b\n",
	  ":3: 'client_ca_file' of tls_server_config is not served here; allowed are cert_file and key_file" },
	{ "\ntls_server_config:\n  cert_file: a\n", ":2: tls_server_config: both cert_file and key_file are wanted" },
	{ "tls_server_config: yes\n",
	  ":1: tls_server_config: lines 'cert_file: FILE' and 'key_file: FILE' are wanted" },
	{ "tls_server_config:\n  cert_file: [a]\n", ":2: cert_file: the name of a PEM file is wanted" },
	{ "tls_server_config:\n  key_file:\n", ":2: key_file: the name of a PEM file is wanted" },
	{ "tls_server_config:\n  cert_file: a\n  cert_file: b\n", ":3: cert_file is given twice" },
	{ "basic_auth_users:\n  prom: secret\n", ":2: prom: not a bcrypt hash ($2y$10$...); htpasswd -nBC 10 NAME" },
	{ "basic_auth_users:\n  prom: $2x$10$" LETTERS "\n", ":2: prom: not a bcrypt hash" },
	{ "basic_auth_users:\n  prom: $2y$10$" LETTERS "a\n", ":2: prom: not a bcrypt hash" },
	{ "basic_auth_users:\n  prom: $2y$15$" LETTERS "\n", ":2: prom: a cost from 04 to 14 is wanted" },
	{ "basic_auth_users:\n  a:b: $2y$10$" LETTERS "\n", ":2: 'a:b' of basic_auth_users: a name without ':'" },
	{ "basic_auth_users:\n  a: $2y$10$" LETTERS "\n  a: $2y$10$" LETTERS "\n",
	  ":3: a of basic_auth_users is given" },
	{ "basic_auth_users:\n  a: $2y$10$" LETTERS "\nbasic_auth_users: {}\n", ":3: basic_auth_users is given twice" },
	{ "basic_auth_users:\n", ":1: basic_auth_users: lines 'NAME: BCRYPT_HASH' are wanted" },
	{ "- a\n", ":1: keys are wanted: tls_server_config, basic_auth_users" },
	{ "? [a]\n: b\n", ":1: a key is wanted" },
	{ "basic_auth_users: {}\n---\n{}\n", ":2: a second document" },
	{ "basic_auth_users:\n\tprom: x\n", ":2: not YAML: " },
	{ "basic_auth_users: {\n", ": not YAML: " },
	{ "a: *b\n", ":1: 'a' is not served here" },
};

static void wrong_is_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(config(wrong[i].text), -EINVAL);
		if (strncmp(error, path, strlen(path)) || !strstr(error, wrong[i].said))
			fail_msg("of\n%s\nit says: %s\nnot: %s", wrong[i].text, error, wrong[i].said);
	}
	web_config_free(&web);
	assert_int_equal(web_config_read("/nowhere/web.yml", &web, error, sizeof(error)), -ENOENT);
	assert_string_equal(error, "/nowhere/web.yml: No such file or directory");
	web_config_free(&web);
	assert_int_equal(web_config_read(folder, &web, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "not a text file"));
}

#define TLS "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"

static void pem_files_are_loaded(void **state)
{
	(void)state;
	assert_int_equal(config(TLS), 0);
	assert_int_equal(web_config_load(&web, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "web.yml:2: cert_file: "));
	assert_non_null(strstr(error, "cert.pem: No such file or directory"));
	file_write("cert.pem", "-----BEGIN CERTIFICATE-----\n");
	file_write("key.pem", "-----BEGIN CERTIFICATE-----\n");
	assert_int_equal(web_config_load(&web, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "web.yml:3: key_file: "));
	assert_non_null(strstr(error, "key.pem has no line with 'PRIVATE KEY'"));
	file_write("key.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n");
	assert_int_equal(config(TLS), 0);
	assert_int_equal(web_config_load(&web, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "key.pem is encrypted; give a key without a passphrase"));
	file_write("key.pem", "-----BEGIN PRIVATE KEY-----\n");
	assert_int_equal(config(TLS), 0);
	assert_int_equal(web_config_load(&web, error, sizeof(error)), 0);
	assert_string_equal(web.key.text, "-----BEGIN PRIVATE KEY-----\n");
}

static void passwords_are_checked(void **state)
{
	uint64_t now_ns = 1000000000;
	int looked_at = 0;

	(void)state;
	assert_int_equal(config("basic_auth_users:\n  prom: " SESAME_4 "\n  slow: " SESAME_10 "\n"), 0);
	assert_true(auth_open(&web));
	assert_int_equal(auth_check(NULL, NULL, now_ns), AUTH_WRONG);
	assert_int_equal(auth_check("prom", NULL, now_ns), AUTH_WRONG);
	assert_int_equal(auth_check("prom", "open sesame", now_ns), AUTH_RIGHT);
	assert_int_equal(auth_check("prom", "open sesam", now_ns), AUTH_WRONG);
	assert_int_equal(auth_check("prom", "", now_ns), AUTH_WRONG);
	assert_int_equal(auth_check("nobody", "open sesame", now_ns), AUTH_WRONG);
	assert_int_equal(auth_check("slow", "shut sesame", now_ns), AUTH_WRONG);
	/* no time passes: what was saved is used up within a second */
	while (looked_at < 1000000 && auth_check("slow", "guess", now_ns) == AUTH_WRONG)
		looked_at++;
	assert_in_range(looked_at, 1, 1000);
	assert_int_equal(auth_check("slow", "open sesame", now_ns), AUTH_LATER);
	assert_int_equal(auth_check("prom", "open sesame", now_ns), AUTH_RIGHT); /* who is known is served */
	/* what the last hash took too much is paid back first */
	assert_int_equal(auth_check("slow", "open sesame", now_ns + 1000), AUTH_LATER);
	now_ns += 100000000000;
	assert_int_equal(auth_check("slow", "open sesame", now_ns), AUTH_RIGHT);
	while (auth_check("slow", "guess", now_ns) == AUTH_WRONG)
		;
	assert_int_equal(auth_check("slow", "open sesame", now_ns), AUTH_RIGHT);
	/* of another user it is not the password */
	assert_int_equal(auth_check("prom", "shut sesame", now_ns + 100000000000), AUTH_WRONG);
}

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/web.yml", folder);
	return 0;
}

static int folder_remove(void **state)
{
	static const char *const names[] = { "web.yml", "cert.pem", "key.pem" };
	char at[128];

	(void)state;
	web_config_free(&web);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(at, sizeof(at), "%s/%s", folder, names[i]);
		unlink(at);
	}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_read),
		cmocka_unit_test(wrong_is_said),
		cmocka_unit_test(pem_files_are_loaded),
		cmocka_unit_test(passwords_are_checked),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
