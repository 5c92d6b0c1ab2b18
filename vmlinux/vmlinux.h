/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * vmlinux.h - only the kernel fields in use, by hand; CO-RE relocates them against the running kernel's BTF.
 * `make VMLINUX=gen` builds against a full dump instead. The guard's name is what bpf_tracing.h looks for:
 * without it, it would pick the UAPI names of the registers.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef int pid_t;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	int group_exit_code;
};

struct seccomp {
	int mode;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct sched_info {
	unsigned long long run_delay;
};

struct mm_struct {
	unsigned long total_vm; /* pages */
};

typedef struct {
	unsigned int val;
} kuid_t;

struct cred {
	kuid_t uid;
};

struct super_block {
	u32 s_dev;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	s64 f_pos;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct nameidata {
	struct path path;
	struct qstr last;
};

struct task_struct {
	unsigned int __state;
	int on_cpu;
	unsigned long nvcsw, nivcsw;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned int flags;
	pid_t pid;
	pid_t tgid;
	int exit_state;
	int exit_code;
	u64 start_time;
	u64 self_exec_id;
	struct mm_struct *mm;
	char comm[16];
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct seccomp seccomp;
	unsigned in_iowait : 1;
	struct files_struct *files;
	struct nameidata *nameidata;
	const struct cred *real_cred;
};

struct kobject { const char *name; };
struct device { struct kobject kobj; };
struct pci_dev { struct device dev; };

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

struct in6_addr { u8 bytes[16]; };
struct net;
struct possible_net { struct net *net; };

struct sock_common {
	unsigned int skc_daddr, skc_rcv_saddr;
	u16 skc_dport; /* network byte order */
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct possible_net skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	int sk_err;
};

struct socket { struct sock *sk; };

struct linux_binprm {
	const char *filename;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
	unsigned long cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#endif

#pragma clang attribute pop

#endif
