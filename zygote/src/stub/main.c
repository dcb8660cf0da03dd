/* pasture-python: a Python interpreter that starts with its modules loaded, or as usual.
 *
 * Asks the user's zygote for an image of an interpreter that stands right before its program, and
 * turns this very process into it. So process id, parent, session, terminal, descriptors, limits
 * and all else are those of the caller's making. Wherever anything stands against that it executes
 * the interpreter beside it: the program never runs otherwise than it would have, at worst later.
 */
#define _GNU_SOURCE
#include "beside.h"
#include "interpreter.h"
#include "manifest.h"
#include "options.h"
#include "request.h"
#include "restore.h"
#include "rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static char reason[8192];

static const char *
because(const char *what, const char *detail)
{
    snprintf(reason, sizeof reason, "%s: %.*s", what, (int)strcspn(detail, "="), detail);
    return reason;
}

static const char *
options_differ(const char *wanted, const command_line *line)
{
    for (size_t i = 0; i < line->options; i++) {
        if (strcmp(wanted, line->option[i]) != 0) {
            return because("an option", line->option[i]);
        }
        wanted += strlen(wanted) + 1;
    }
    return *wanted ? because("without the option", wanted) : NULL;
}

static void
say(const char *what, const char *why)
{
    const char *asked = getenv("PASTURE_ZYGOTE_VERBOSE");
    if (asked != NULL && *asked) {
        fprintf(stderr, "pasture-python: %s: %s\n", what, why);
    }
}

/* Directories, archives that cannot be read, and pipes are for the interpreter: what it says of
   them, it says before any program runs. */
static const char *
is_no_script(const command_line *line)
{
    struct stat status;
    if (line->kind != 'f') {
        return NULL;
    }
    if (stat(line->text, &status) < 0 || !S_ISREG(status.st_mode) || access(line->text, R_OK) < 0) {
        return "the program is no plain file";
    }
    if (beside_is_archive(line->text)) {
        return "the program is an archive";
    }
    return NULL;
}

/* Turns this process into the image that was handed out; returns if it does not fit. */
static const char *
take(const char *python, char **argv, command_line *line, answer *a)
{
    const char *why;
    const manifest *m = manifest_open(a->file[0], &why);
    if (m == NULL) {
        return why;
    }
    if (strcmp(python, manifest_at(m, m->python_at)) != 0) {
        return because("the zygote is of another interpreter", manifest_at(m, m->python_at));
    }
    if ((why = options_differ(manifest_at(m, m->options_at), line)) != NULL) {
        return why;
    }
    if ((why = rules_broken(manifest_at(m, m->rules_at), environ)) != NULL) {
        return because("a variable that matters at the start", why);
    }
    if ((why = beside_found(m, line)) != NULL) {
        return because("the program's folder has a module that the zygote has another one of", why);
    }
    (void)close(a->file[0]);
    say("served by the zygote", a->text);
    restore_request request = {
        .python = python, .argv = argv, .envp = environ, .line = line, .answer = a};
    return restore(m, a->file + 1, a->files - 1, &request);
}

/* Returns if this process cannot become one, with the reason. */
static const char *
become(const char *python, int argc, char **argv)
{
    static command_line line;
    static answer a;
    const char *why;
    if (getauxval(AT_SECURE)) {
        return "the program has rights that its caller has not";
    }
    if (options_parse(argc, argv, &line, &why) < 0 || (why = is_no_script(&line)) != NULL) {
        return why;
    }
    why = request_image(python, &line, &a);
    if (why == NULL) {
        why = take(python, argv, &line, &a);
    }
    request_left(&a, why);
    return why;
}

int
main(int argc, char **argv)
{
    const char *python = interpreter_find();
    if (python == NULL) {
        fprintf(stderr, "pasture-python: there is no python beside it; PASTURE_PYTHON names one\n");
        return 127;
    }
    if (argc > 0) {
        argv[0] = (char *)python;
        say(python, become(python, argc, argv));
    }
    execv(python, argv);
    fprintf(stderr, "pasture-python: %s: %s\n", python, strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
