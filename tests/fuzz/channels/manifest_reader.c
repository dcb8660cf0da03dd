/* The stub's reader of manifests as a program of the host, for AddressSanitizer and
 * UndefinedBehaviorSanitizer: a manifest that it accepts is used as restore.c uses it.
 *
 * Standard input: frames of a length (8 bytes), a byte that says whether the checksum is to be made
 * right, and a manifest. Standard output: a byte for each: 'r' refused, 'a' accepted. */
#define _GNU_SOURCE
#include "manifest.h"
#include "question.h"
#include "rules.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *environment[] = {"HOME=/", "LANG=C", "PYTHONPATH=/a", "EMPTY=", NULL};

/* Keeps the compiler from leaving reads out. */
static volatile uint64_t sum;

static void
use_texts(const manifest *m, uint64_t at)
{
    for (const char *o = manifest_at(m, at); *o; o += strlen(o) + 1) {
        sum += (unsigned char)*o;
    }
}

/* As host.c, made_of.c and beside.c. */
static void
use_made_of(const manifest *m)
{
    const uint64_t *fact = manifest_at(m, m->facts_at);
    for (uint64_t i = 0; i < m->facts; i++) {
        sum += fact[i];
    }
    const manifest_dated *dated = manifest_at(m, m->dated_at);
    for (uint64_t i = 0; i < m->dated; i++) {
        sum += strlen(manifest_at(m, dated[i].path)) + dated[i].bytes + dated[i].changed_ns;
    }
    const manifest_searched *searched = manifest_at(m, m->searched_at);
    for (uint64_t i = 0; i < m->searched; i++) {
        sum += strlen(manifest_at(m, searched[i].path)) + searched[i].changed_ns;
        use_texts(m, searched[i].names);
        use_texts(m, searched[i].found);
    }
    const manifest_question *question = manifest_at(m, m->questions_at);
    for (uint64_t i = 0; i < m->questions; i++) {
        bool has_path = question_has_path(question[i].number);
        sum += has_path ? strlen(manifest_at(m, question[i].argument)) : question[i].answer;
    }
    const manifest_folder *folder = manifest_at(m, m->folders_at);
    for (uint64_t i = 0; i < m->folders; i++) {
        sum += strlen(manifest_at(m, folder[i].path));
    }
}

static void
use(const manifest *m)
{
    const manifest_source *source = manifest_sources(m);
    for (uint64_t i = 0; i < m->sources; i++) {
        sum += source[i].kind == MANIFEST_IMAGE ? 0 : strlen(manifest_at(m, source[i].path));
    }
    const manifest_region *region = manifest_regions(m);
    for (uint64_t i = 0; i < m->regions; i++) {
        sum += region[i].start + region[i].length;
        sum += region[i].source == MANIFEST_ANONYMOUS ? 0 : source[region[i].source].bytes;
    }
    const manifest_file *file = manifest_at(m, m->files_at);
    for (uint64_t i = 0; i < m->files; i++) {
        sum += file[i].number + strlen(manifest_at(m, file[i].path));
    }
    for (uint64_t i = 0; i < m->kernels; i++) {
        sum += m->kernel[i].start + m->kernel[i].length;
    }
    const char *auxv = manifest_at(m, m->auxv_at);
    for (uint64_t i = 0; i < m->auxv_bytes; i++) {
        sum += (unsigned char)auxv[i];
    }
    sum += source[m->stack_source].bytes - m->stack_offset;
    use_texts(m, m->options_at);
    use_made_of(m);
    sum += strlen(manifest_at(m, m->python_at));
    const char *broken = rules_broken(manifest_at(m, m->rules_at), environment);
    sum += broken != NULL ? strlen(broken) : 0;
}

int
main(void)
{
    uint64_t length;
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        int is_corrected = getchar();
        char *data = malloc(length ? length : 1);
        if (is_corrected == EOF || data == NULL || fread(data, 1, length, stdin) != length) {
            return 2;
        }
        if (is_corrected && length >= sizeof(manifest) && length % sizeof(uint64_t) == 0) {
            manifest *m = (manifest *)data;
            m->bytes = length;
            m->checksum = manifest_checksum(data, length);
        }
        bool is_good = manifest_flaw(data, length) == NULL;
        if (is_good) {
            use((const manifest *)data);
        }
        free(data);
        putchar(is_good ? 'a' : 'r');
        fflush(stdout);
    }
    return 0;
}
