/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_errors.h - names of CUresult.
 */
#ifndef RANKTRACE_CUDA_ERRORS_H
#define RANKTRACE_CUDA_ERRORS_H

/* "CUDA_ERROR_ILLEGAL_ADDRESS"; NULL: a number this version does not know. */
const char *cuda_error_name(int result);

#endif
