#include "manifest.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int
is_inside(const manifest *m, uint64_t at, uint64_t count, uint64_t size, uint64_t bytes)
{
    (void)m;
    return at <= bytes && count <= (bytes - at) / size;
}

const manifest *
manifest_open(int file, const char **why)
{
    struct stat status;
    *why = "the image's description makes no sense";
    if (fstat(file, &status) < 0 || (size_t)status.st_size < sizeof(manifest)) {
        return NULL;
    }
    uint64_t bytes = (uint64_t)status.st_size;
    const manifest *m = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (m == MAP_FAILED) {
        return NULL;
    }
    if (m->magic != MANIFEST_MAGIC) {
        *why = "the zygote is of another version of pasture";
        return NULL;
    }
    if (m->kernels > MANIFEST_KERNELS
        || !is_inside(m, m->sources_at, m->sources, sizeof(manifest_source), bytes)
        || !is_inside(m, m->regions_at, m->regions, sizeof(manifest_region), bytes)
        || !is_inside(m, m->files_at, m->files, sizeof(manifest_file), bytes)
        || !is_inside(m, m->folders_at, m->folders, sizeof(manifest_folder), bytes)
        || !is_inside(m, m->names_at, m->names, sizeof(manifest_name), bytes)
        || !is_inside(m, m->auxv_at, m->auxv_bytes, 1, bytes) || m->stack_source >= m->sources
        || m->rules_at >= bytes || m->python_at >= bytes || m->options_at >= bytes) {
        return NULL;
    }
    return m;
}
