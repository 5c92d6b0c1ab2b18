/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_identity.c - who a process is by its environment and its cgroups: every launcher's variables, alone and
 * one inside the other; the paths of every container runtime we know of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inspect/discover/cgroup_path.h"
#include "inspect/discover/launch_env.h"

struct environ_case {
	const char *what, *text; /* '|' for the zero byte between variables */
	enum rank_source source;
	int rank, world, local;
	const char *job;
	enum rank_source other;
	int other_rank;
};

static const struct environ_case environ_cases[] = {
	{ "torchrun", "A=1|RANK=5|LOCAL_RANK=1|WORLD_SIZE=8|TORCHELASTIC_RUN_ID=run7|MASTER_ADDR=h|MASTER_PORT=29500",
	  RANK_ENV, 5, 8, 1, "run7", RANK_UNKNOWN, -1 },
	{ "torchrun without an id", "RANK=0|WORLD_SIZE=8|TORCHELASTIC_RUN_ID=none|MASTER_ADDR=h|MASTER_PORT=29500",
	  RANK_ENV, 0, 8, -1, "h:29500", RANK_UNKNOWN, -1 },
	{ "srun", "SLURM_PROCID=3|SLURM_NTASKS=4|SLURM_LOCALID=1|SLURM_JOB_ID=77|SLURM_STEP_ID=0", RANK_SLURM, 3, 4, 1,
	  "slurm-77.0", RANK_UNKNOWN, -1 },
	{ "a step smaller than its job", "SLURM_PROCID=1|SLURM_NTASKS=64|SLURM_STEP_NUM_TASKS=2|SLURM_JOB_ID=77",
	  RANK_SLURM, 1, 2, -1, "slurm-77", RANK_UNKNOWN, -1 },
	{ "srun, then torchrun: one task a node",
	  "SLURM_PROCID=1|SLURM_NTASKS=2|SLURM_LOCALID=0|SLURM_JOB_ID=77|RANK=9|"
	  "WORLD_SIZE=16|LOCAL_RANK=1",
	  RANK_ENV, 9, 16, 1, "slurm-77", RANK_SLURM, 1 },
	{ "srun, RANK set from it by a script", "SLURM_PROCID=3|SLURM_NTASKS=4|SLURM_LOCALID=3|RANK=3|WORLD_SIZE=4",
	  RANK_ENV, 3, 4, 3, "", RANK_UNKNOWN, -1 },
	{ "mpirun",
	  "OMPI_COMM_WORLD_RANK=2|OMPI_COMM_WORLD_SIZE=4|OMPI_COMM_WORLD_LOCAL_RANK=2|OMPI_MCA_ess_base_jobid=123",
	  RANK_OMPI, 2, 4, 2, "openmpi-123", RANK_UNKNOWN, -1 },
	{ "mpirun in an allocation: its daemons are Slurm tasks",
	  "SLURM_PROCID=0|SLURM_NTASKS=2|OMPI_COMM_WORLD_RANK=6|"
	  "OMPI_COMM_WORLD_SIZE=8|OMPI_COMM_WORLD_LOCAL_RANK=2|PMIX_RANK=6|PMIX_NAMESPACE=prterun-h-1@1",
	  RANK_OMPI, 6, 8, 2, "openmpi-prterun-h-1@1", RANK_SLURM, 0 },
	{ "hydra", "PMI_RANK=1|PMI_SIZE=2|MPI_LOCALRANKID=1|PMI_JOBID=j", RANK_PMI, 1, 2, 1, "pmi-j", RANK_UNKNOWN,
	  -1 },
	{ "hydra in an allocation", "SLURM_PROCID=0|SLURM_NTASKS=1|PMI_RANK=1|PMI_SIZE=2", RANK_PMI, 1, 2, -1, "",
	  RANK_SLURM, 0 },
	{ "PMIx tells no size", "PMIX_RANK=3|PMIX_NAMESPACE=n", RANK_PMIX, 3, -1, -1, "pmix-n", RANK_UNKNOWN, -1 },
	{ "srun --mpi=pmix", "PMIX_RANK=3|PMIX_NAMESPACE=slurm.pmix.7.0|SLURM_PROCID=3|SLURM_NTASKS=4|SLURM_LOCALID=1",
	  RANK_PMIX, 3, 4, 1, "pmix-slurm.pmix.7.0", RANK_UNKNOWN, -1 },
	{ "jsrun", "JSM_NAMESPACE_RANK=1|JSM_NAMESPACE_SIZE=6|JSM_NAMESPACE_LOCAL_RANK=1|LSB_JOBID=5", RANK_JSM, 1, 6,
	  1, "lsf-5", RANK_UNKNOWN, -1 },
	{ "mvapich", "MV2_COMM_WORLD_RANK=1|MV2_COMM_WORLD_SIZE=6|MV2_COMM_WORLD_LOCAL_RANK=0", RANK_MVAPICH, 1, 6, 0,
	  "", RANK_UNKNOWN, -1 },
	{ "flux", "FLUX_TASK_RANK=1|FLUX_JOB_SIZE=6|FLUX_TASK_LOCAL_ID=0|FLUX_JOB_ID=f2", RANK_FLUX, 1, 6, 0, "flux-f2",
	  RANK_UNKNOWN, -1 },
	{ "RANK makes no sense, Slurm does", "RANK=9|WORLD_SIZE=8|SLURM_PROCID=1|SLURM_NTASKS=2", RANK_SLURM, 1, 2, -1,
	  "", RANK_UNKNOWN, -1 },
	{ "a rank past the size", "RANK=9|WORLD_SIZE=8|MYRANK=1|RANK", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "no number", "RANK=captain|WORLD_SIZE=4", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "no size", "RANK=1", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "a job and no rank", "SLURM_JOB_ID=77", RANK_UNKNOWN, -1, -1, -1, "slurm-77", RANK_UNKNOWN, -1 },
	{ "nothing", "", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "the last rank", "RANK=7|WORLD_SIZE=8", RANK_ENV, 7, 8, -1, "", RANK_UNKNOWN, -1 },
	{ "one past it", "RANK=8|WORLD_SIZE=8", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "as large as may be", "PMIX_RANK=9999999", RANK_PMIX, 9999999, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "larger", "PMIX_RANK=10000000", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "a number and more", "PMIX_RANK=3x", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "a sign", "PMIX_RANK=+3", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "an empty one", "PMIX_RANK=|PMIX_RANKS=4", RANK_UNKNOWN, -1, -1, -1, "", RANK_UNKNOWN, -1 },
	{ "three launchers: the first other one is reported",
	  "RANK=5|WORLD_SIZE=8|PMI_RANK=1|PMI_SIZE=2|SLURM_PROCID=3|"
	  "SLURM_NTASKS=4",
	  RANK_ENV, 5, 8, -1, "", RANK_PMI, 1 },
	{ "the same rank of another size", "RANK=1|WORLD_SIZE=8|PMI_RANK=1|PMI_SIZE=4", RANK_ENV, 1, 8, -1, "",
	  RANK_PMI, 1 },
	{ "another says the size", "PMIX_RANK=1|SLURM_PROCID=1|SLURM_NTASKS=4|SLURM_LOCALID=0", RANK_PMIX, 1, 4, 0, "",
	  RANK_UNKNOWN, -1 },
	{ "the local rank of the first that knows it",
	  "RANK=1|WORLD_SIZE=8|LOCAL_RANK=1|PMI_RANK=1|PMI_SIZE=8|"
	  "MPI_LOCALRANKID=7",
	  RANK_ENV, 1, 8, 1, "", RANK_UNKNOWN, -1 },
	{ "a local rank of 0 is one", "RANK=3|WORLD_SIZE=4|LOCAL_RANK=0|SLURM_PROCID=3|SLURM_NTASKS=4|SLURM_LOCALID=3",
	  RANK_ENV, 3, 4, 0, "", RANK_UNKNOWN, -1 },
	{ "the third name of a size", "SLURM_PROCID=1|SLURM_STEP_NUM_TASKS=none|SLURM_NTASKS=|SLURM_NPROCS=3",
	  RANK_SLURM, 1, 3, -1, "", RANK_UNKNOWN, -1 },
	{ "the older name of a job", "SLURM_JOBID=8", RANK_UNKNOWN, -1, -1, -1, "slurm-8", RANK_UNKNOWN, -1 },
	{ "no port", "RANK=1|WORLD_SIZE=2|MASTER_ADDR=h", RANK_ENV, 1, 2, -1, "", RANK_UNKNOWN, -1 },
	{ "no host", "RANK=1|WORLD_SIZE=2|MASTER_PORT=1|SLURM_JOB_ID=9", RANK_ENV, 1, 2, -1, "slurm-9", RANK_UNKNOWN,
	  -1 },
	{ "the job of who gave the rank", "PMI_RANK=1|PMI_SIZE=2|PMI_JOBID=p|PMIX_NAMESPACE=x", RANK_PMI, 1, 2, -1,
	  "pmi-p", RANK_UNKNOWN, -1 },
};

static void environ_of(const char *text, struct proc_environ *ret)
{
	char copy[512];
	size_t len = strlen(text);

	memcpy(copy, text, len + 1);
	for (size_t i = 0; i < len; i++)
		copy[i] = text[i] == '|' ? '\0' : text[i];
	proc_environ_parse(copy, len, ret);
}

static void knows_every_launcher(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(environ_cases) / sizeof(environ_cases[0]); i++) {
		const struct environ_case *c = &environ_cases[i];
		struct proc_environ e;

		environ_of(c->text, &e);
		if (e.source != c->source || e.rank != c->rank || e.world_size != c->world ||
		    e.local_rank != c->local || strcmp(e.job, c->job) || e.other_source != c->other ||
		    e.other_rank != c->other_rank || e.late)
			fail_msg("%s: %s %d of %d, local %d, job '%s', other %s %d", c->what,
				 rank_source_name(e.source), e.rank, e.world_size, e.local_rank, e.job,
				 rank_source_name(e.other_source), e.other_rank);
	}
}

static void has_a_name_for_each(void **state)
{
	static const struct {
		enum rank_source source;
		const char *name, *variable;
	} names[] = { { RANK_ENV, "env", "RANK" },
		      { RANK_SLURM, "slurm", "SLURM_PROCID" },
		      { RANK_PMIX, "pmix", "PMIX_RANK" },
		      { RANK_INHERITED, "inherited", "" },
		      { RANK_UNKNOWN, "", "" } };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_string_equal(rank_source_name(names[i].source), names[i].name);
		assert_string_equal(rank_source_variable(names[i].source), names[i].variable);
		assert_int_equal(rank_source_is_inherited_by_all(names[i].source), names[i].source == RANK_SLURM);
	}
}

/* What differs from the start was set late; a launcher that is trusted less changes nothing. */
static void is_late_if_it_differs(void **state)
{
	static const struct {
		const char *start, *live;
		bool taken, late;
	} cases[] = { { "RANK=1|WORLD_SIZE=2", "RANK=1|WORLD_SIZE=2", true, false },
		      { "RANK=1|WORLD_SIZE=2", "RANK=0|WORLD_SIZE=2", true, true },
		      { "RANK=1|WORLD_SIZE=2", "RANK=1|WORLD_SIZE=4", true, true },
		      { "PMI_RANK=1|PMI_SIZE=2", "RANK=1|WORLD_SIZE=2", true, true },
		      { "RANK=1|WORLD_SIZE=2", "PMI_RANK=0|PMI_SIZE=4", false, false },
		      { "RANK=1|WORLD_SIZE=2", "HOME=/", false, false },
		      { "HOME=/", "SLURM_PROCID=1|SLURM_NTASKS=2", true, true } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proc_environ e, start, live;

		environ_of(cases[i].start, &e);
		start = e;
		environ_of(cases[i].live, &live);
		proc_environ_update(&e, &live);
		assert_int_equal(e.rank, cases[i].taken ? live.rank : start.rank);
		assert_int_equal(e.world_size, cases[i].taken ? live.world_size : start.world_size);
		assert_int_equal(e.late, cases[i].late);
	}
}

static void takes_what_was_set_late(void **state)
{
	struct proc_environ e, live;

	(void)state;
	/* Ray: nothing at first */
	environ_of("HOME=/", &e);
	environ_of("HOME=/|RANK=2|WORLD_SIZE=4|LOCAL_RANK=0|MASTER_ADDR=h|MASTER_PORT=1", &live);
	proc_environ_update(&e, &live);
	assert_int_equal(e.rank, 2);
	assert_true(e.late);
	assert_string_equal(e.job, "h:1");
	/* still late when it is read again */
	proc_environ_update(&e, &live);
	assert_true(e.late && e.rank == 2);
	/* the same as at the start is not late */
	environ_of("RANK=1|WORLD_SIZE=2", &e);
	live = e;
	proc_environ_update(&e, &live);
	assert_false(e.late);
	/* a worker spawned by one task of Slurm names itself */
	environ_of("SLURM_PROCID=0|SLURM_NTASKS=2", &e);
	environ_of("SLURM_PROCID=0|SLURM_NTASKS=2|RANK=3|WORLD_SIZE=8", &live);
	proc_environ_update(&e, &live);
	assert_true(e.late && e.rank == 3 && e.source == RANK_ENV && e.other_source == RANK_SLURM);
	/* and one that takes RANK away does not become what Slurm says */
	environ_of("SLURM_PROCID=0|SLURM_NTASKS=2", &live);
	proc_environ_update(&e, &live);
	assert_int_equal(e.rank, 3);
}

#define A64 "aaaaaaaaaaaabbbbbbbbbbbbccccccccccccddddddddddddeeeeeeeeeeeeffff"
#define B64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "6a1e5c3b-0f6d-4b7e-9d55-2f1d8a2c9e10"
#define UID_ "6a1e5c3b_0f6d_4b7e_9d55_2f1d8a2c9e10"
#define POD_SLICE "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"

static const struct {
	const char *what, *text, *container, *pod, *slurm;
} cgroup_cases[] = {
	{ "none, v2", "0::/user.slice/user-0.slice/session-1.scope\n", "", "", "" },
	{ "none, v1", "3:cpu,cpuacct:/\n1:name=systemd:/init.scope\n0::/\n", "", "", "" },
	{ "docker, cgroupfs, v1", "12:pids:/docker/" A64 "\n11:cpu,cpuacct:/docker/" A64 "\n0::/\n", "aaaaaaaaaaaa", "",
	  "" },
	{ "docker, systemd, v2", "0::/system.slice/docker-" A64 ".scope\n", "aaaaaaaaaaaa", "", "" },
	{ "containerd, systemd", "0::" POD_SLICE "/cri-containerd-" A64 ".scope\n", "aaaaaaaaaaaa", UID, "" },
	{ "containerd, cgroupfs, v1", "5:memory:/kubepods/burstable/pod" UID "/" A64 "\n", "aaaaaaaaaaaa", UID, "" },
	{ "guaranteed class, cgroupfs", "0::/kubepods/pod" UID "/" A64 "\n", "aaaaaaaaaaaa", UID, "" },
	{ "guaranteed class, systemd", "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" A64 ".scope\n",
	  "aaaaaaaaaaaa", UID, "" },
	{ "cri-o with a sub-group", "0::" POD_SLICE "/crio-" A64 ".scope/container\n", "aaaaaaaaaaaa", UID, "" },
	{ "cri-o's monitor", "0::" POD_SLICE "/crio-conmon-" A64 ".scope\n", "", UID, "" },
	{ "a static pod", "0::/kubepods/burstable/podfc29a40e31a1b8e3e1a4dd2b3b3e5f6a/" A64 "\n", "aaaaaaaaaaaa",
	  "fc29a40e31a1b8e3e1a4dd2b3b3e5f6a", "" },
	{ "containerd with the other driver",
	  "1:cpu:/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" A64 "\n",
	  "aaaaaaaaaaaa", UID, "" },
	{ "podman, root", "0::/machine.slice/libpod-" A64 ".scope/container\n", "aaaaaaaaaaaa", "", "" },
	{ "podman, user", "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" A64 ".scope\n",
	  "aaaaaaaaaaaa", "", "" },
	{ "podman's monitor", "0::/machine.slice/libpod-conmon-" A64 ".scope\n", "", "", "" },
	{ "docker in a pod", "0::" POD_SLICE "/cri-containerd-" A64 ".scope/docker/" B64 "\n", "0123456789ab", UID,
	  "" },
	{ "kind: a pod in docker", "0::/docker/" A64 "/kubelet/kubepods/besteffort/pod" UID "/" B64 "\n",
	  "0123456789ab", UID, "" },
	{ "kind, systemd",
	  "0::/system.slice/docker-" A64 ".scope/kubelet.slice/kubelet-kubepods.slice/"
	  "kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" B64 ".scope\n",
	  "0123456789ab", UID, "" },
	{ "lxc", "0::/lxc.payload.web1/init.scope\n", "web1", "", "" },
	{ "lxc, old", "4:cpu:/lxc/web1\n", "web1", "", "" },
	{ "slurm, v1", "4:memory:/slurm/uid_1000/job_77/step_0/task_3\n", "", "", "77.0" },
	{ "slurm, v2", "0::/system.slice/slurmstepd.scope/job_77/step_batch/user/task_0\n", "", "", "77.batch" },
	{ "no Slurm's job_", "0::/ci/job_77/step_0\n", "", "", "" },
	{ "an id too long", "5:x:/" A64 "0\n", "", "", "" },
	{ "an id too short", "5:x:/" UID "\n", "", "", "" },
	{ "a pod's id with a letter that is no digit", "0::/kubepods/pod6a1e5c3b-0f6d-4b7e-9d55-2f1d8a2c9e1g\n", "", "",
	  "" },
	{ "a pod's id with a dash elsewhere", "0::/kubepods/pod6a1e5c3b0-f6d-4b7e-9d55-2f1d8a2c9e10\n", "", "", "" },
	{ "a name that only looks like a pod", "0::/tripod" UID "\n", "", "", "" },
	{ "cut short", "0::/kubepods/pod6a1e", "", "", "" },
	{ "a unit of its own", "0::/system.slice/docker-" A64 ".service\n", "aaaaaaaaaaaa", "", "" },
	{ "another suffix", "0::/system.slice/docker-" A64 ".mount\n", "", "", "" },
	{ "an id that is no number",
	  "0::/docker/g"
	  "aaaaaaaaaaabbbbbbbbbbbbccccccccccccddddddddddddeeeeeeeeeeeeffff\n",
	  "", "", "" },
	{ "an id with one digit more in front", "0::/docker/0" A64 "\n", "", "", "" },
	{ "an id with a name in front", "0::/docker/x" A64 "\n", "aaaaaaaaaaaa", "", "" },
	{ "a static pod, with the class", "0::/kubepods-burstable-podfc29a40e31a1b8e3e1a4dd2b3b3e5f6a.slice\n", "",
	  "fc29a40e31a1b8e3e1a4dd2b3b3e5f6a", "" },
	{ "a static pod's id too short", "0::/podfc29a40e31a1b8e3e1a4dd2b3b3e5f6\n", "", "", "" },
	{ "a static pod's id that is none", "0::/podgc29a40e31a1b8e3e1a4dd2b3b3e5f6a\n", "", "", "" },
	{ "a name in front of a static pod", "0::/tripodfc29a40e31a1b8e3e1a4dd2b3b3e5f6a\n", "", "", "" },
	{ "a pod and nothing in front", "0::/pod" UID "\n", "", UID, "" },
	{ "not behind pod", "0::/pot" UID "\n", "", "", "" },
	{ "a step of no job", "0::/slurm/uid_1/step_0\n", "", "", "" },
	{ "a job without a step", "0::/slurm/uid_1/job_5/task_0\n", "", "", "" },
	{ "lxc with a suffix", "0::/lxc.payload.web1.scope\n", "web1", "", "" },
	{ "not below lxc", "0::/lxd/web1\n", "", "", "" },
	{ "below something longer", "0::/lxcs/web1\n", "", "", "" },
	{ "the first line that has one", "3:cpu:/\n2:x:/docker/" A64 "\n1:y:/docker/" B64 "\n", "aaaaaaaaaaaa", "",
	  "" },
	{ "a pod and a step of different lines", "3:cpu:/pod" UID "\n2:x:/slurm/job_1/step_2\n1:y:/docker/" B64 "\n",
	  "0123456789ab", UID, "1.2" },
	{ "no newline at the end", "0::/docker/" A64, "aaaaaaaaaaaa", "", "" },
	{ "no path", "0:\n::\n\nabc", "", "", "" },
};

static void knows_every_container(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cgroup_cases) / sizeof(cgroup_cases[0]); i++) {
		struct cgroup_names n;

		cgroup_names_parse(cgroup_cases[i].text, &n);
		if (strcmp(n.container, cgroup_cases[i].container) || strcmp(n.pod, cgroup_cases[i].pod) ||
		    strcmp(n.slurm, cgroup_cases[i].slurm))
			fail_msg("%s: container '%s', pod '%s', slurm '%s'", cgroup_cases[i].what, n.container, n.pod,
				 n.slurm);
	}
}

static void knows_where_it_lives(void **state)
{
	struct cgroup_names n;
	struct proc_environ e;
	char text[512], deep[301];

	(void)state;
	environ_of("HOSTNAME=train-0|KUBERNETES_SERVICE_HOST=10.0.0.1|POD_NAMESPACE=research", &e);
	assert_string_equal(e.pod_name, "train-0");
	assert_string_equal(e.namespace, "research");
	environ_of("HOSTNAME=node-7|SLURM_JOB_ID=77|SLURM_STEP_ID=2", &e);
	assert_string_equal(e.pod_name, ""); /* in no pod: the host's name */
	assert_string_equal(e.slurm_job, "77");
	assert_string_equal(e.slurm_step, "2");
	environ_of("HOSTNAME=a|POD_NAME=b|KUBERNETES_SERVICE_HOST=10.0.0.1", &e);
	assert_string_equal(e.pod_name, "b");
	environ_of("MY_POD_NAME=c|MY_POD_NAMESPACE=d|SLURM_JOBID=5|CUDA_VISIBLE_DEVICES=0,1", &e);
	assert_string_equal(e.pod_name, "c");
	assert_string_equal(e.namespace, "d");
	assert_string_equal(e.slurm_job, "5");
	assert_string_equal(e.slurm_step, "");
	assert_string_equal(e.visible_devices, "0,1");
	environ_of("K8S_POD_NAME=e|MY_POD_NAME=c", &e);
	assert_string_equal(e.pod_name, "e");
	cgroup_names_read(getpid(), &n); /* of a process that lives */
	assert_true(n.path[0] == '/');
	cgroup_names_read(0x7fffffff, &n);
	assert_string_equal(n.path, "");
	cgroup_names_parse("5:cpu:/legacy\n0::/user.slice/s.scope\n", &n);
	assert_string_equal(n.path, "/user.slice/s.scope");
	cgroup_names_parse("5:cpu:/legacy\n4:memory:/other\n", &n);
	assert_string_equal(n.path, "/legacy");
	memset(deep, 'x', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	snprintf(text, sizeof(text), "0::/%s/end\n", deep);
	cgroup_names_parse(text, &n);
	assert_int_equal(strlen(n.path), sizeof(n.path) - 1);
	assert_string_equal(n.path + strlen(n.path) - 4, "/end");
	for (size_t len = sizeof(n.path) - 2; len <= sizeof(n.path); len++) { /* all of it, or its end */
		memset(deep, 'y', len);
		deep[0] = '/';
		deep[1] = 'a';
		deep[len] = '\0';
		snprintf(text, sizeof(text), "0::%s\n", deep);
		cgroup_names_parse(text, &n);
		assert_string_equal(n.path, len < sizeof(n.path) ? deep : deep + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_every_launcher),  cmocka_unit_test(takes_what_was_set_late),
		cmocka_unit_test(is_late_if_it_differs), cmocka_unit_test(has_a_name_for_each),
		cmocka_unit_test(knows_every_container), cmocka_unit_test(knows_where_it_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
