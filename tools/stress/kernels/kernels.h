/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - the text of stress.ptx, as the driver takes it.
 */
#ifndef STRESS_KERNELS_H
#define STRESS_KERNELS_H

extern const char kernels_ptx[]; /* ends with a 0 */

#endif
