/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_links.c - one connection from both ends, by made-up readings of NCCL's proxies: links.h row by row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "detect/transfer/links.h"
#include "tests/unit/job/proxy_parts.h"

static enum link_side judge(struct proxy_part send, struct proxy_part recv)
{
	return link_delaying_side(&send, &recv);
}

static void the_table(void **state)
{
	struct proxy_part one;

	(void)state;
	/* on its way, with buffers waiting for it; accepted by the network or not */
	assert_int_equal(judge(sending(32, 28, 28), receiving(28, 20, 20, 20)), LINK_NETWORK);
	assert_int_equal(judge(sending(32, 28, 24), receiving(28, 20, 20, 20)), LINK_NETWORK);
	/* the receiver's GPU has not taken what came: it waits for somebody else */
	assert_int_equal(judge(sending(32, 28, 28), receiving(28, 28, 28, 20)), LINK_QUIET);
	assert_int_equal(judge(sending(36, 32, 32), receiving(28, 28, 28, 20)), LINK_QUIET);
	/* received, and not passed on */
	assert_int_equal(judge(sending(32, 28, 28), receiving(28, 28, 24, 20)), LINK_RECEIVER);
	/* it could post, and does not */
	assert_int_equal(judge(sending(32, 28, 28), receiving(28, 28, 28, 28)), LINK_RECEIVER);
	assert_int_equal(judge(sending(28, 28, 28), receiving(36, 28, 28, 28)), LINK_SENDER);
	/* field notes, section 1: the sender's GPU has nothing to send, the receiver has buffers out */
	assert_int_equal(judge(sending(32, 24, 24), receiving(32, 24, 24, 24)), LINK_QUIET);
	/* all came, and the sender does not see it */
	assert_int_equal(judge(sending(32, 28, 24), receiving(36, 28, 28, 28)), LINK_SENDER);
	/* queued behind something */
	assert_int_equal(judge(queued(true), receiving(8, 0, 0, 0)), LINK_SENDER);
	assert_int_equal(judge(sending(8, 8, 8), queued(false)), LINK_RECEIVER);
	assert_int_equal(judge(sending(8, 0, 0), queued(false)), LINK_RECEIVER);
	/* the last step */
	assert_int_equal(judge(sending(STEPS, STEPS, STEPS), receiving(STEPS, STEPS, STEPS, STEPS - 4)), LINK_QUIET);
	assert_int_equal(judge(sending(STEPS, STEPS, STEPS), receiving(STEPS, STEPS - 4, STEPS - 4, STEPS - 4)),
			 LINK_NETWORK);
	/* one end is not there any more */
	one = receiving(28, 20, 20, 20);
	assert_int_equal(link_delaying_side(NULL, &one), LINK_NETWORK);
	one = receiving(28, 28, 28, 20);
	assert_int_equal(link_delaying_side(NULL, &one), LINK_QUIET);
	one = receiving(28, 28, 28, 28);
	assert_int_equal(link_delaying_side(NULL, &one), LINK_RECEIVER);
	one = sending(STEPS, STEPS, STEPS - 4);
	assert_int_equal(link_delaying_side(&one, NULL), LINK_SENDER);
	one = sending(32, 28, 28);
	assert_int_equal(link_delaying_side(&one, NULL), LINK_RECEIVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_table) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
