#include <stdio.h>
extern const char *kernels_report(void);
int main(void) { puts(kernels_report()); return 0; }
