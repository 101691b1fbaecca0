/* As much of the CUDA driver's interface as memory between processes needs, over files in memory; it is as strict as the
   real one where that can be told without a GPU: no call without a context, no own memory by handle, handles counted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, MAP_FAILED_HERE = 205, NOT_SUPPORTED = 801 };
#define SLOTS 256

typedef struct { char reserved[64]; } Handle;
typedef struct { uint64_t base; size_t size; int fd, pool, uses; Handle handle; } Memory; /* uses > 0: another process's */

static Memory memories[SLOTS];
static int initialized, depth_limit = 16, contexts;
static __thread int depth;

static Memory *find(uint64_t address) {
    for (int at = 0; at < SLOTS; at++)
        if (memories[at].size && address >= memories[at].base && address < memories[at].base + memories[at].size)
            return &memories[at];
    return NULL;
}

static Memory *vacant(void) {
    for (int at = 0; at < SLOTS; at++)
        if (!memories[at].size) return &memories[at];
    return NULL;
}

#define NEED_CONTEXT if (!initialized) return NOT_INITIALIZED; if (!depth) return INVALID_CONTEXT

int cuInit(unsigned flags) { initialized = 1; return flags ? INVALID_VALUE : OK; }

int cuGetErrorString(int code, const char **text) {
    *text = code == INVALID_VALUE ? "invalid argument" : code == NOT_SUPPORTED ? "operation not supported"
          : code == INVALID_CONTEXT ? "invalid device context" : "mapping of buffer object failed";
    return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (!initialized) return NOT_INITIALIZED;
    if (device) return INVALID_VALUE;
    contexts++;
    *context = &contexts;
    return OK;
}

int cuCtxPushCurrent_v2(void *context) {
    if (context != &contexts || depth == depth_limit) return INVALID_CONTEXT;
    depth++;
    return OK;
}

int cuCtxPopCurrent_v2(void **context) {
    if (!depth) return INVALID_CONTEXT;
    depth--;
    *context = &contexts;
    return OK;
}

int cuCtxSynchronize(void) { NEED_CONTEXT; return OK; }

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address) {
    NEED_CONTEXT;
    Memory *memory = find(address);
    if (!memory) return INVALID_VALUE;
    *base = memory->base;
    *size = memory->size;
    return OK;
}

int cuIpcGetMemHandle(Handle *handle, uint64_t base) {
    NEED_CONTEXT;
    Memory *memory = find(base);
    if (!memory || memory->base != base || memory->uses) return INVALID_VALUE;
    if (memory->pool) return NOT_SUPPORTED;
    memset(handle, 0, sizeof *handle);
    handle->reserved[0] = 0; /* a handle may have zero bytes anywhere */
    snprintf(handle->reserved + 1, 62, "%d %d %zu", getpid(), memory->fd, memory->size);
    handle->reserved[63] = 7;
    return OK;
}

int cuIpcOpenMemHandle_v2(uint64_t *address, Handle handle, unsigned flags) {
    NEED_CONTEXT;
    int pid, fd;
    size_t size;
    char path[64];
    if (flags != 1 || handle.reserved[63] != 7 || sscanf(handle.reserved + 1, "%d %d %zu", &pid, &fd, &size) != 3)
        return INVALID_VALUE;
    if (pid == getpid()) return INVALID_CONTEXT;
    for (int at = 0; at < SLOTS; at++)
        if (memories[at].uses && !memcmp(&memories[at].handle, &handle, sizeof handle)) {
            memories[at].uses++;
            *address = memories[at].base;
            return OK;
        }
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    int opened = open(path, O_RDWR);
    if (opened < 0) return MAP_FAILED_HERE;
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    close(opened);
    Memory *memory = vacant();
    if (mapped == MAP_FAILED || !memory) return MAP_FAILED_HERE;
    *memory = (Memory){(uint64_t)mapped, size, -1, 0, 1, handle};
    *address = memory->base;
    return OK;
}

int cuIpcCloseMemHandle(uint64_t address) {
    NEED_CONTEXT;
    Memory *memory = find(address);
    if (!memory || memory->base != address || !memory->uses) return INVALID_VALUE;
    if (--memory->uses) return OK;
    munmap((void *)memory->base, memory->size);
    memory->size = 0;
    return OK;
}

int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t nbytes) {
    NEED_CONTEXT;
    Memory *memory = find(source);
    if (!memory || source + nbytes > memory->base + memory->size) return INVALID_VALUE;
    memcpy(target, (void *)source, nbytes);
    return OK;
}

int cuMemcpy(uint64_t target, uint64_t source, size_t nbytes) {
    NEED_CONTEXT;
    memcpy((void *)target, (void *)source, nbytes);
    return OK;
}

static int allocate(uint64_t *address, size_t size, int pool) {
    NEED_CONTEXT;
    Memory *memory = vacant();
    int fd = memfd_create("standin", 0);
    if (!memory || !size || fd < 0 || ftruncate(fd, (off_t)size)) return INVALID_VALUE;
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *memory = (Memory){(uint64_t)mapped, size, fd, pool, 0, {{0}}};
    *address = memory->base;
    return OK;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) { return allocate(address, size, 0); }

int cuMemAllocAsync(uint64_t *address, size_t size, void *stream) { return stream ? INVALID_VALUE : allocate(address, size, 1); }

int cuMemFree_v2(uint64_t address) {
    NEED_CONTEXT;
    Memory *memory = find(address);
    if (!memory || memory->base != address || memory->uses) return INVALID_VALUE;
    munmap((void *)memory->base, memory->size);
    close(memory->fd);
    memory->size = 0;
    return OK;
}

int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t nbytes) {
    NEED_CONTEXT;
    Memory *memory = find(target);
    if (!memory || target + nbytes > memory->base + memory->size) return INVALID_VALUE;
    memcpy((void *)target, source, nbytes);
    return OK;
}

int standin_opened(void) {
    int count = 0;
    for (int at = 0; at < SLOTS; at++) count += memories[at].size && memories[at].uses;
    return count;
}
