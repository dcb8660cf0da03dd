/* An allocator that pasture does not know: lists of free blocks by size, over one reservation.
 * It takes the place of malloc by LD_PRELOAD, and has no interface but malloc's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define RESERVED_BYTES ((size_t)4 << 30)
#define CLASSES 48

typedef struct block {
    size_t bytes; /* of what follows the header; a power of two */
    struct block *next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *fresh, *end;
static block *free_blocks[CLASSES];

static int
class_of(size_t bytes)
{
    int number = 4;
    while (((size_t)1 << number) < bytes) {
        number++;
    }
    return number;
}

static block *
take(size_t bytes)
{
    int number = class_of(bytes);
    block *found = number < CLASSES ? free_blocks[number] : NULL;
    if (found != NULL) {
        free_blocks[number] = found->next;
        return found;
    }
    if (fresh == NULL) {
        fresh = mmap(NULL, RESERVED_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        end = fresh + RESERVED_BYTES;
    }
    size_t taken = sizeof(block) + ((size_t)1 << number);
    if (number >= CLASSES || taken > (size_t)(end - fresh)) {
        return NULL;
    }
    found = (block *)fresh;
    fresh += taken;
    found->bytes = (size_t)1 << number;
    return found;
}

static void *
allocate(size_t bytes)
{
    pthread_mutex_lock(&lock);
    block *taken = take(bytes);
    pthread_mutex_unlock(&lock);
    if (taken == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return taken + 1;
}

void *
malloc(size_t bytes)
{
    return allocate(bytes);
}

void
free(void *memory)
{
    if (memory == NULL) {
        return;
    }
    block *given = (block *)memory - 1;
    int number = class_of(given->bytes);
    pthread_mutex_lock(&lock);
    given->next = free_blocks[number];
    free_blocks[number] = given;
    pthread_mutex_unlock(&lock);
}

void *
calloc(size_t count, size_t bytes)
{
    if (bytes != 0 && count > SIZE_MAX / bytes) {
        return NULL;
    }
    void *memory = allocate(count * bytes); /* malloc: the compiler would make a calloc of it */
    return memory == NULL ? NULL : memset(memory, 0, count * bytes);
}

void *
realloc(void *memory, size_t bytes)
{
    if (memory == NULL) {
        return malloc(bytes);
    }
    size_t held = ((block *)memory - 1)->bytes;
    if (bytes <= held) {
        return memory;
    }
    void *moved = malloc(bytes);
    if (moved != NULL) {
        memcpy(moved, memory, held);
        free(memory);
    }
    return moved;
}

/* What asks for more than 16 bytes of alignment gets none in this program. */
int
posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    return alignment > 16 || (*memory = malloc(bytes)) == NULL ? ENOMEM : 0;
}

void *
aligned_alloc(size_t alignment, size_t bytes)
{
    return alignment > 16 ? NULL : malloc(bytes);
}

size_t
malloc_usable_size(void *memory)
{
    return memory == NULL ? 0 : ((block *)memory - 1)->bytes;
}
