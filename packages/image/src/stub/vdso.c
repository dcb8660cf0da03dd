/* As CRIU does it for processes that go on under another kernel. What the copy has besides its
 * functions stays: who looks a function up in it later finds one that jumps, too.
 *
 * Source: vdso(7); Linux tools/testing/selftests/vDSO/parse_vdso.c; CRIU criu/pie/parasite-vdso.c.
 */
#define _GNU_SOURCE
#include "vdso.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#ifdef __x86_64__
#  define JUMP_BYTES 12
#else
#  define JUMP_BYTES 16
#endif

typedef struct {
    const char *data;
    uint64_t bytes, base; /* base: the address that symbols count from */
    const Elf64_Sym *symbol;
    uint64_t symbols;
    const char *names;
    uint64_t names_bytes;
} view;

static bool
is_within(uint64_t offset, uint64_t length, uint64_t bytes)
{
    return offset <= bytes && length <= bytes - offset;
}

static bool
find_symbols(view *v, const Elf64_Ehdr *head)
{
    const Elf64_Shdr *section = (const Elf64_Shdr *)(v->data + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (section[i].sh_type != SHT_DYNSYM || section[i].sh_link >= head->e_shnum) {
            continue;
        }
        const Elf64_Shdr *names = &section[section[i].sh_link];
        if (!is_within(section[i].sh_offset, section[i].sh_size, v->bytes)
            || !is_within(names->sh_offset, names->sh_size, v->bytes) || !names->sh_size) {
            return false;
        }
        v->symbol = (const Elf64_Sym *)(v->data + section[i].sh_offset);
        v->symbols = section[i].sh_size / sizeof *v->symbol;
        v->names = v->data + names->sh_offset;
        v->names_bytes = names->sh_size;
        return v->names[v->names_bytes - 1] == 0;
    }
    return false;
}

static bool
open_view(view *v, const char *data, uint64_t bytes)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)data;
    *v = (view){.data = data, .bytes = bytes};
    if (data == NULL || bytes < sizeof *head || memcmp(data, ELFMAG, SELFMAG) != 0
        || head->e_shentsize != sizeof(Elf64_Shdr) || head->e_phentsize != sizeof(Elf64_Phdr)
        || !is_within(head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr), bytes)
        || !is_within(head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr), bytes)) {
        return false;
    }
    const Elf64_Phdr *part = (const Elf64_Phdr *)(data + head->e_phoff);
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD) {
            v->base = part[i].p_vaddr - part[i].p_offset;
            return find_symbols(v, head);
        }
    }
    return false;
}

static bool
is_function(const view *v, const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE)
           && symbol->st_name < v->names_bytes && symbol->st_value >= v->base
           && is_within(symbol->st_value - v->base, 1, v->bytes);
}

/* The signal trampoline is not called, but returned to, at the place that the kernel says; what enters
   an enclave is called by name. */
static bool
is_called(const char *name)
{
    return strcmp(name, "__kernel_rt_sigreturn") != 0
           && strcmp(name, "__vdso_sgx_enter_enclave") != 0;
}

static const Elf64_Sym *
find_function(const view *v, const char *name)
{
    for (uint64_t i = 0; i < v->symbols; i++) {
        if (is_function(v, &v->symbol[i]) && strcmp(v->names + v->symbol[i].st_name, name) == 0) {
            return &v->symbol[i];
        }
    }
    return NULL;
}

/* Whether a jump at the begin of a function covers no other one. */
static bool
has_room(const view *v, const Elf64_Sym *symbol)
{
    for (uint64_t i = 0; i < v->symbols; i++) {
        const Elf64_Sym *other = &v->symbol[i];
        if (is_function(v, other) && other->st_value > symbol->st_value
            && other->st_value - symbol->st_value < JUMP_BYTES) {
            return false;
        }
    }
    return is_within(symbol->st_value - v->base, JUMP_BYTES, v->bytes);
}

static void
write_jump(char *at, uint64_t target)
{
#ifdef __x86_64__
    memcpy(at, "\x48\xb8", 2); /* movabs $target, %rax */
    memcpy(at + 2, &target, sizeof target);
    memcpy(at + 10, "\xff\xe0", 2); /* jmp *%rax */
#else
    memcpy(at, "\x50\x00\x00\x58\x00\x02\x1f\xd6", 8); /* ldr x16, .+8; br x16 */
    memcpy(at + 8, &target, sizeof target);
#endif
}

const char *
vdso_redirect(char *copy, uint64_t bytes, uint64_t own_bytes, uint64_t place)
{
    static char why[128];
    view image, own;
    if (!open_view(&image, copy, bytes)
        || !open_view(&own, (const char *)getauxval(AT_SYSINFO_EHDR), own_bytes)) {
        return "the vDSO of this kernel, or of the image's, is of an unknown form";
    }
    for (uint64_t i = 0; i < image.symbols; i++) {
        const Elf64_Sym *symbol = &image.symbol[i], *found;
        const char *name = is_function(&image, symbol) ? image.names + symbol->st_name : "";
        if (!*name || !is_called(name)) {
            continue;
        }
        if ((found = find_function(&own, name)) == NULL || !has_room(&image, symbol)) {
            snprintf(why, sizeof why, "the vDSO of this kernel does not have %.64s", name);
            return why;
        }
        write_jump(copy + (symbol->st_value - image.base), place + (found->st_value - own.base));
    }
    return NULL;
}

/* not reached in this file: the kernel's vDSO is what it is on this machine */
