/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_file.h - facts of one mapped ELF file: build-id, text segments, where wanted functions are, which function an
 * offset belongs to. Works on an open file, never on a path. The file is hostile input: all is checked, and the
 * elf_fetch_* calls do the work in the helper, where a file cut short while mapped kills only the worker.
 */
#ifndef RANKTRACE_TARGET_ELF_FILE_H
#define RANKTRACE_TARGET_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_BUILD_ID_MAX 20
#define ELF_TEXTS_MAX 4
#define ELF_SYMBOL_NAME_MAX 256
#define ELF_WANTED_MAX 512

struct reader;
struct elf_file;

struct elf_text {                     /* one executable PT_LOAD segment */
	uint64_t vaddr, offset, size; /* bytes of the file, at vaddr of the image */
};

struct elf_facts {
	uint8_t build_id[ELF_BUILD_ID_MAX]; /* a longer one is cut */
	uint8_t build_id_len;
	bool build_id_made_up; /* none in the file: a hash of device, inode, size and mtime */
	bool has_dwarf;
	bool has_symbols;       /* any symbol table at all */
	bool has_symtab;        /* .symtab, so that static functions have names */
	uint16_t type;          /* ET_EXEC, ET_DYN */
	uint64_t environ_vaddr; /* of libc's `environ`, where this file defines it (libc; a program's copy); 0 none */
	uint32_t n_text;
	struct elf_text text[ELF_TEXTS_MAX];
	struct elf_text unwind; /* .eh_frame_hdr; size 0: none */
};

struct elf_symbol { /* of a function defined in this file */
	bool found;
	uint64_t offset;    /* in the file: what a uprobe wants; text segment checked */
	uint64_t vaddr;     /* in the image */
	uint64_t size;      /* bytes, 0 unknown */
	uint64_t semaphore; /* of a static mark: in the file, of the counter of who looks; 0 none */
};

struct elf_name {                       /* nearest function at or before a file offset */
	uint64_t delta;                 /* from the function's start, bytes */
	char name[ELF_SYMBOL_NAME_MAX]; /* mangled as it stands; cut; "" none */
};

/*
 * Maps the file; fd is borrowed and may be closed at once. -ENOEXEC not ELF, -ENOTSUP another class, byte order or
 * machine than ours, -EBADMSG damaged, -EINVAL not a regular file, -EFBIG full of holes.
 */
int elf_file_open(int fd, struct elf_file **ret);
struct stat;
bool elf_fd_sparse(int fd, const struct stat *st); /* no linker makes such a file */
void elf_file_free(struct elf_file *f);
/* Valid as long as f. */
const struct elf_facts *elf_file_facts(const struct elf_file *f);
/*
 * Looks the names up in .dynsym and .symtab (undefined entries do not count). ret has n entries, all written. A name
 * may be the begin of one ("_ZN5torch8autograd6Engine7execute*": what follows differs between versions), or a virtual
 * function without a name ("N5torch4NodeE[1]": class as in its type info, slot in its table), which is looked for in
 * files alone where a wanted C++ function was found; or a static mark by provider and name ("python:gc__start"), if the
 * file has it in one place.
 * Returns how many were found, or -E2BIG (n > ELF_WANTED_MAX).
 */
int elf_file_find(const struct elf_file *f, const char *const names[], size_t n, struct elf_symbol *ret);
/* Functions of .dynsym that the file defines whose names begin so, in the order of the table; a name once. */
#define ELF_EXPORTS_MAX 256
#define ELF_EXPORT_LEN 64 /* with its zero byte; a longer name is left out */
struct elf_exports {
	uint32_t n;
	char names[ELF_EXPORTS_MAX][ELF_EXPORT_LEN];
};
void elf_file_exports(const struct elf_file *f, const char *begins, struct elf_exports *ret);
/* Names for n file offsets in one pass over the symbols. ret has n entries, all written. Returns how many have one. */
int elf_file_name(const struct elf_file *f, const uint64_t offsets[], size_t n, struct elf_name *ret);
/* Which of n file offsets are where a function begins: elf_entry.c. ret has n entries, all written. 0 or -ENOMEM. */
int elf_file_entries(const struct elf_file *f, const uint64_t offsets[], size_t n, bool ret[]);
/* So many bytes of the file, NULL where it has fewer. */
const void *elf_file_bytes(const struct elf_file *f, uint64_t offset, uint64_t len);
/* True when the file offset is inside the file's own text. */
bool elf_facts_in_text(const struct elf_facts *facts, uint64_t offset);
/* What an error of the calls below means for the file: "built for another machine". */
const char *elf_error_text(int error);
/* build_id as hex into `to` (at least 2 * ELF_BUILD_ID_MAX + 1 bytes). */
void elf_facts_build_id(const struct elf_facts *facts, char *to);

/* The same, done in the helper process on a borrowed fd; errors of reader_run() and the above. */
int elf_fetch_facts(struct reader *r, int fd, const char *const names[], size_t n, unsigned deadline_ms,
		    struct elf_facts *ret_facts, struct elf_symbol *ret_symbols);
int elf_fetch_names(struct reader *r, int fd, const uint64_t offsets[], size_t n, unsigned deadline_ms,
		    struct elf_name *ret);
int elf_fetch_exports(struct reader *r, int fd, const char *begins, unsigned deadline_ms, struct elf_exports *ret);
int elf_fetch_entries(struct reader *r, int fd, const uint64_t offsets[], size_t n, unsigned deadline_ms, bool ret[]);

#endif
