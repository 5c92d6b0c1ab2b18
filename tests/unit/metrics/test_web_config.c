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
#include <sys/mman.h>
#include <sys/stat.h>

#include "metrics/web/server_auth.h"
#include "metrics/web/web_config.h"
#include "metrics/web/web_watch.h"

/* "open sesame" */
#define SESAME_4 "$2y$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy"
#define SESAME_10 "$2y$10$abcdefghijklmnopqrstuu4SuEsu2LsUrAYUpWQHLMMc4GV5pZTxK"
#define TLS "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"
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
	assert_string_equal(web.pems[WEB_CERT].path, at);
	assert_string_equal(web.pems[WEB_KEY].path, "/keys/key.pem");
	assert_int_equal(web.pems[WEB_CERT].line, 3);
	assert_int_equal(web.n_users, 2);
	assert_string_equal(web.users[0].name, "prom");
	assert_string_equal(web.users[1].name, "o ps");
	assert_string_equal(web.users[1].hash, "$2y$04$" LETTERS);
	assert_int_equal(config("{basic_auth_users: {a: $2a$14$" LETTERS "}}"), 0);
	assert_null(web.pems[WEB_CERT].path);
	assert_int_equal(web.n_users, 1);
	for (const char *const *none = (const char *const[]){ "", "# nothing\n", "---\n{}\n", NULL }; *none; none++)
		assert_int_equal(config(*none), 0);
	assert_int_equal(web.n_users, 0);
}

static void clients_are_read(void **state)
{
	(void)state;
	assert_int_equal(config(TLS), 0);
	assert_int_equal(web.clients, WEB_CLIENTS_ANY);
	assert_int_equal(config(TLS "  client_auth_type: RequireAnyClientCert\n"), 0);
	assert_int_equal(web.clients, WEB_CLIENTS_WITH_ANY);
	assert_int_equal(config(TLS "  client_ca_file: /ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n"), 0);
	assert_int_equal(web.clients, WEB_CLIENTS_KNOWN);
	assert_string_equal(web.pems[WEB_CLIENT_CA].path, "/ca.pem");
}

static const struct {
	const char *text, *said;
} wrong[] = {
	{ "tls_config:\n  a: b\n",
	  ":1: 'tls_config' is not served here; allowed are tls_server_config and basic_auth_users" },
	{ "tls_server_config:\n  cert_file: a\n  client_allowed_sans: [b]\n",
	  ":3: 'client_allowed_sans' of tls_server_config is not served here; allowed are cert_file, key_file, "
	  "client_auth_type and client_ca_file" },
	{ TLS "  client_ca_file: ca.pem\n", ":4: client_ca_file alone asks no client for a certificate" },
	{ TLS "  client_ca_file: ca.pem\n  client_auth_type: NoClientCert\n",
	  ":4: client_ca_file alone asks no client" },
	{ TLS "  client_auth_type: VerifyClientCertIfGiven\n",
	  ":4: client_auth_type: VerifyClientCertIfGiven takes client_ca_file" },
	{ TLS "  client_auth_type: RequireAndVerifyClientCert\n",
	  ":4: client_auth_type: RequireAndVerifyClientCert takes client_ca_file" },
	{ TLS "  client_auth_type: Require\n",
	  ":4: client_auth_type: 'Require' is none; NoClientCert, RequestClientCert" },
	{ TLS "  client_auth_type: NoClientCert\n  client_auth_type: NoClientCert\n",
	  ":5: client_auth_type is given twice" },
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
	assert_string_equal(web.pems[WEB_KEY].text, "-----BEGIN PRIVATE KEY-----\n");
}

/* What the server gets is what was read, and of a file that is cut off nothing. */
static void configuration_is_handed_on(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct web_config got;

	(void)state;
	assert_true(fd >= 0);
	file_write("cert.pem", "-----BEGIN CERTIFICATE-----\n");
	file_write("key.pem", "-----BEGIN PRIVATE KEY-----\n");
	assert_int_equal(config(TLS "  client_auth_type: RequestClientCert\nbasic_auth_users:\n  prom: " SESAME_4 "\n"),
			 0);
	assert_int_equal(web_config_load(&web, error, sizeof(error)), 0);
	assert_int_equal(write(fd, "what was there before", 21), 21);
	assert_int_equal(web_config_pack(&web, fd), 0);
	assert_int_equal(web_config_unpack(fd, &got), 0);
	assert_int_equal(got.clients, WEB_CLIENTS_ASKED);
	assert_string_equal(got.pems[WEB_CERT].text, "-----BEGIN CERTIFICATE-----\n");
	assert_string_equal(got.pems[WEB_KEY].text, "-----BEGIN PRIVATE KEY-----\n");
	assert_null(got.pems[WEB_CLIENT_CA].text);
	assert_int_equal(got.n_users, 1);
	assert_string_equal(got.users[0].name, "prom");
	assert_string_equal(got.users[0].hash, SESAME_4);
	web_config_free(&got);
	assert_int_equal(ftruncate(fd, lseek(fd, 0, SEEK_END) - 1), 0);
	assert_int_equal(web_config_unpack(fd, &got), -EINVAL);
	web_config_free(&got);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(web_config_unpack(fd, &got), -EINVAL);
	web_config_free(&got);
	close(fd);
}

static int watch_read(struct web_watch *w)
{
	web_config_free(&web);
	return web_watch_read(w, path, &web, error, sizeof(error));
}

/* A change is one when it is there at two looks; what cannot be read is read again when it changes again. */
static void changes_are_seen(void **state)
{
	struct web_watch w = { .config = NULL };
	uint64_t t = 10 * WEB_LOOK_NS;

	(void)state;
	file_write("cert.pem", "-----BEGIN CERTIFICATE-----\n");
	file_write("key.pem", "-----BEGIN PRIVATE KEY-----\n");
	file_write("web.yml", TLS);
	assert_false(web_watch_changed(&w, t)); /* there is none yet */
	assert_int_equal(watch_read(&w), 0);
	for (int i = 0; i < 3; i++)
		assert_false(web_watch_changed(&w, t += WEB_LOOK_NS));
	file_write("cert.pem", "-----BEGIN CERTIFICATE-----\nnew\n");
	assert_false(web_watch_changed(&w, t += WEB_LOOK_NS));
	file_write("key.pem", "no key at all\n");
	assert_false(web_watch_changed(&w, t += WEB_LOOK_NS)); /* its key came between two looks */
	assert_false(web_watch_changed(&w, t + WEB_LOOK_NS / 2));
	assert_true(web_watch_changed(&w, t += WEB_LOOK_NS));
	assert_int_equal(watch_read(&w), -EINVAL);
	assert_false(web_watch_changed(&w, t += WEB_LOOK_NS));
	file_write("key.pem", "-----BEGIN PRIVATE KEY-----\nnew\n");
	assert_false(web_watch_changed(&w, t += WEB_LOOK_NS));
	assert_true(web_watch_changed(&w, t += WEB_LOOK_NS));
	assert_int_equal(watch_read(&w), 0);
	assert_string_equal(web.pems[WEB_CERT].text, "-----BEGIN CERTIFICATE-----\nnew\n");
	file_write("web.yml", "basic_auth_users:\n  prom: " SESAME_4 "\n");
	assert_false(web_watch_changed(&w, t += WEB_LOOK_NS));
	assert_true(web_watch_changed(&w, t += WEB_LOOK_NS));
	assert_int_equal(watch_read(&w), 0);
	file_write("cert.pem", "nobody reads this any more\n");
	web_watch_changed(&w, t += WEB_LOOK_NS);
	assert_false(web_watch_changed(&w, t += WEB_LOOK_NS));
	web_watch_free(&w);
}

static void passwords_are_checked(void **state)
{
	uint64_t now_ns = 1000000000;
	int looked_at = 0;

	(void)state;
	assert_int_equal(config("basic_auth_users:\n  prom: " SESAME_4 "\n  slow: " SESAME_10 "\n"), 0);
	assert_true(auth_open());
	auth_users_set(&web);
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
	/* users that are set anew begin anew */
	auth_users_set(&web);
	assert_int_equal(auth_check("slow", "open sesame", now_ns), AUTH_LATER);
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
		cmocka_unit_test(clients_are_read),
		cmocka_unit_test(wrong_is_said),
		cmocka_unit_test(pem_files_are_loaded),
		cmocka_unit_test(configuration_is_handed_on),
		cmocka_unit_test(changes_are_seen),
		cmocka_unit_test(passwords_are_checked),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
