/* pasture-python: a Python interpreter that starts with its modules loaded, or as usual.
 *
 * Opens the image that PASTURE_IMAGE names or that lies next to this program, and turns this very
 * process into the interpreter in it, which is about to run its program. So the process keeps the
 * caller's process id, parent, session, terminal, descriptors, limits and all else. Where anything
 * does not fit it executes the interpreter next to it: the program never runs otherwise than it
 * would have, at worst later.
 */
#define _GNU_SOURCE
#include "beside.h"
#include "content.h"
#include "folder.h"
#include "host.h"
#include "image_file.h"
#include "interpreter.h"
#include "made_of.h"
#include "manifest.h"
#include "options.h"
#include "question.h"
#include "record.h"
#include "restore.h"
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#define OWN_IMAGE_END ".img"
#define FAILED "_PASTURE_FAILED" /* of a program that came to life in vain, and is run again */
#define ANY_OPTIONS "_PASTURE_ANY_OPTIONS" /* `image show --check` asks: the own ones, unread */

extern char **environ;

static char reason[8192];

/* Up to a byte of `end`: values of variables are not shown. */
static const char *
because(const char *what, const char *detail, const char *end)
{
    snprintf(reason, sizeof reason, "%s%.*s", what, (int)strcspn(detail, end), detail);
    return reason;
}

static const char *
options_differ(const char *wanted, const command_line *line)
{
    for (size_t i = 0; i < line->options; i++) {
        if (strcmp(wanted, line->option[i]) != 0) {
            return because("an option: ", line->option[i], "=");
        }
        wanted += strlen(wanted) + 1;
    }
    return *wanted ? because("without the option: ", wanted, "=") : NULL;
}

/* NULL where it is not set, or empty. */
static const char *
variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value ? value : NULL;
}

static bool
is_verbose(void)
{
    return variable("PASTURE_IMAGE_VERBOSE") != NULL;
}

static void
say(const char *what, const char *why)
{
    if (is_verbose()) {
        fprintf(stderr, "pasture-python: %s: %s\n", what, why);
    }
}

static const char *
differs(const manifest *m, int file, const char *python, const command_line *line)
{
    static const char changed[] = "a file has changed since the image was made: ";
    const char *why;
    if (strcmp(python, manifest_at(m, m->python_at)) != 0) {
        return because("the image is of another interpreter: ", manifest_at(m, m->python_at), "");
    }
    if (variable(ANY_OPTIONS) == NULL
        && (why = options_differ(manifest_at(m, m->options_at), line)) != NULL) {
        return why;
    }
    if ((why = rules_broken(manifest_at(m, m->rules_at), environ)) != NULL) {
        return because("a variable that matters at the start: ", why, "=");
    }
    if ((why = question_differs(m)) != NULL) {
        return because(*why == '/' ? changed
                                   : "modules asked while loading, and the answer is another one: ",
                       why, "");
    }
    if ((why = host_differs(m)) != NULL) {
        return because("the image was made under another ", why, "");
    }
    if ((why = image_file_may_not_run(m, file)) != NULL) {
        return why;
    }
    if ((why = made_of_differs(m)) != NULL) {
        return because(changed, why, "");
    }
    if ((why = beside_found(m, line)) != NULL) {
        return because("the program's folder, which PYTHONSAFEPATH=1 leaves out, has a module that "
                       "the image has another one of: ",
                       why, "");
    }
    return NULL;
}

/* Turns this process into an image; returns if it does not fit, with the reason. */
static const char *
start_from_file(const char *path, const char *python, char **argv, command_line *line)
{
    const char *why;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        return because("the image cannot be opened: ", strerror(errno), "");
    }
    const manifest *m = image_file_manifest(file, &why);
    if (m != NULL && (why = differs(m, file, python, line)) == NULL) {
        say("started from the image", path);
        restore_request request = {.python = python,
                                   .argv = argv,
                                   .envp = environ,
                                   .line = line,
                                   .is_verbose = is_verbose()};
        why = restore(m, file, &request);
    }
    (void)close(file);
    return why;
}

/* Out of the first image of a folder that fits. The reason is that of the newest. */
static const char *
start_from_folder(const char *folder, const char *python, char **argv, command_line *line)
{
    static folder_image images[FOLDER_MAX_IMAGES];
    static char kept[sizeof reason];
    size_t found = folder_find(folder, images);
    snprintf(kept, sizeof kept, "the folder has no image");
    for (size_t i = 0; i < found; i++) {
        const char *why = start_from_file(images[i].path, python, argv, line);
        say(images[i].path, why);
        if (i == 0) {
            snprintf(kept, sizeof kept, "%s", why);
        }
    }
    return kept;
}

/* The environment's own image, next to this program, or NULL. */
static const char *
own_image(void)
{
    static char path[PATH_MAX + sizeof OWN_IMAGE_END];
    strcat(strcpy(path, interpreter_own_path()), OWN_IMAGE_END);
    return access(path, F_OK) == 0 ? path : NULL;
}

/* PASTURE=off means python. The words are those of pasture's `off.py`. */
static bool
is_off(void)
{
    static const char *const words[] = {"0", "off", "false", "no"};
    const char *value = variable("PASTURE");
    for (size_t i = 0; value != NULL && i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(value, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns if this process cannot become one, with the reason. */
static const char *
become(const char *python, int argc, char **argv)
{
    static command_line line;
    const char *why;
    if (getauxval(AT_SECURE)) {
        return "the program has rights that its caller has not";
    }
    if (options_parse(argc, argv, &line, &why) < 0
        || (line.kind == 'f' && (why = beside_no_script(line.text)) != NULL)) {
        return why;
    }
    if (is_off()) {
        return "PASTURE is off";
    }
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) == NULL && errno == ENOENT) {
        return "the working directory is gone";
    }
    const char *path = variable("PASTURE_IMAGE");
    if (path != NULL && strcmp(path, "0") == 0) {
        return "PASTURE_IMAGE is 0";
    }
    if (path == NULL && (path = own_image()) == NULL) {
        return "there is no image";
    }
    const char *failed = variable(FAILED);
    if (failed != NULL) {
        return failed;
    }
    return folder_is(path) ? start_from_folder(path, python, argv, &line)
                           : start_from_file(path, python, argv, &line);
}

/* For `pasture image build`: what this program knows of the machine, and of files. */
static int
show_facts(int files, char **file)
{
    host_fact facts[HOST_FACTS];
    host_find(facts);
    for (size_t i = 0; i < HOST_FACTS; i++) {
        printf("- %016llx %s\n", (unsigned long long)facts[i].value, facts[i].name);
    }
    for (int i = 0; i < files; i++) {
        uint64_t sum = 0;
        bool is_known = content_sum_of_path(file[i], &sum);
        printf("%c %016llx \n", is_known ? '-' : '?', (unsigned long long)sum);
    }
    if (fflush(stdout) != 0) {
        fprintf(stderr, "pasture-python: standard output: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--pasture-facts") == 0) {
        return show_facts(argc - 2, argv + 2);
    }
    if (argc > 3 && strcmp(argv[1], "--pasture-record") == 0) {
        record_run(atoi(argv[2]), argv + 3);
        return 126;
    }
    const char *python = interpreter_find();
    if (python == NULL) {
        fprintf(stderr,
                "pasture-python: there is no python next to it; PASTURE_PYTHON names one\n");
        return 127;
    }
    if (argc > 0) { /* not reached: without any, Linux from 5.18 on gives an empty one */
        argv[0] = (char *)python;
        say(python, become(python, argc, argv));
        (void)unsetenv(FAILED);
    }
    execv(python, argv);
    fprintf(stderr, "pasture-python: %s: %s\n", python, strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
