/* What a program and its children look at, recorded by the kernel while they run. */
#ifndef STUB_RECORD_H
#define STUB_RECORD_H

/* Start the program `argv[0]` as a child, and write each lookup to `log` until the program and all that
 * descends from it have ended. Returns only if it cannot be started; standard error says why. The
 * child's parent, this process, ends with its own.
 *
 * A record: `THREAD CALL FLAGS ERRNO MODE SIZE CHANGED_NS INODE DEVICE SUM PATH`, tabs between, a zero
 * byte behind; numbers in decimal, but for flags and mode in hexadecimal. ERRNO is 0 where the path
 * was there; the rest is as stat(2) had it right before the call, 0 where nothing was. SUM is of the
 * names in a folder that is listed (content_sum_of_names), or of the answer to a question
 * (question_answer). CALL is `blind` where the kernel let the path not be read. */
void record_run(int log, char **argv);

#endif
