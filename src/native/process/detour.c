/* The bytes are put where the function's code is: a jump to the address behind it. */
#define _GNU_SOURCE
#include "detour.h"

#include "os_page.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GLIBC__) \
    && !defined(__SANITIZE_ADDRESS__)

#define TARGET_AT (DETOUR_BYTES - sizeof(uint64_t))

/* 0, or errno; the code may have been written even then. */
static int
write_code(uint8_t *at, const uint8_t *code)
{
    uintptr_t start = (uintptr_t)at & -(uintptr_t)os_page_get_bytes();
    size_t bytes = (uintptr_t)at + DETOUR_BYTES - start;
    if (mprotect((void *)start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) < 0) {
        return errno;
    }
    memcpy(at, code, DETOUR_BYTES);
    __builtin___clear_cache((char *)at, (char *)at + DETOUR_BYTES);
    return mprotect((void *)start, bytes, PROT_READ | PROT_EXEC) < 0 ? errno : 0;
}

uint8_t *
detour_find(const char *name)
{
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    if (library != NULL) {
        (void)dlclose(library);
    }
    if (found == NULL || !dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) || symbol == NULL
        || symbol->st_size < DETOUR_BYTES) {
        return NULL;
    }
    return found;
}

/* endbr64; jmp *0(%rip), or bti c; ldr x16, 12; br x16; nop. */
bool
detour_begin(detour *d, uint8_t *at, const void *to)
{
#ifdef __x86_64__
    uint8_t code[DETOUR_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25};
#else
    uint8_t code[DETOUR_BYTES] = {0x5f, 0x24, 0x03, 0xd5, 0x70, 0x00, 0x00, 0x58,
                                  0x00, 0x02, 0x1f, 0xd6, 0x1f, 0x20, 0x03, 0xd5};
#endif
    uint64_t target = (uint64_t)(uintptr_t)to;
    memcpy(code + TARGET_AT, &target, sizeof target);
    if (at == NULL) {
        return false;
    }
    memcpy(d->original, at, DETOUR_BYTES);
    (void)write_code(at, code);
    bool is_written = memcmp(at, code, sizeof code) == 0;
    d->at = is_written ? at : NULL;
    return is_written;
}

int
detour_end(detour *d)
{
    int err = d->at != NULL ? write_code(d->at, d->original) : 0;
    if (err == 0) {
        d->at = NULL;
    }
    return err;
}

#else

uint8_t *
detour_find(const char *name)
{
    (void)name;
    return NULL;
}

bool
detour_begin(detour *d, uint8_t *at, const void *to)
{
    (void)d, (void)at, (void)to;
    return false;
}

int
detour_end(detour *d)
{
    (void)d;
    return 0;
}

#endif

/* not reached in this file: a C library or an unwinder of another make */
