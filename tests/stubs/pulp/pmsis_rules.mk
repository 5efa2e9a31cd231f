# Stands in for the SDK's rules: builds the application for this machine against the strict stand-in for the SDK's API.
STUBS := $(RULES_DIR)
TARGETS := BUILD/$(APP)

.PHONY: all run clean
all:: BUILD/$(APP)

BUILD/$(APP): $(APP_SRCS)
	@mkdir -p $(@D)
	@echo '$(APP_LDFLAGS)' > $@.link
	gcc -std=gnu99 -O1 -fno-pie -I$(STUBS) -c $(STUBS)/pmsis.c -o $@.pmsis.o
	gcc $(APP_CFLAGS) -Wall -Wextra -Werror -fno-pie -no-pie -I$(STUBS)/libc -I$(STUBS) $(if $(shell grep -sw fma /proc/cpuinfo),-mfma) \
	    $(APP_SRCS) $@.pmsis.o -pthread -lm -o $@

run:
	cd BUILD && ./$(APP)

clean::
	rm -rf BUILD
