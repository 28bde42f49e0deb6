#!/bin/sh
# Starts one launch and keeps its pid, start time, boot id and exit code as files.
# usage: sh supervisor.sh LAUNCH_DIRECTORY PYTHON
d=$1
python=$2
user_umask=$(umask)
umask 077
mkdir "$d/lock" 2>/dev/null || exit 98   # one start per directory, ever

# A handler, not '': an ignored signal would stay ignored in the engine.
trap : HUP INT TERM

start_ticks() {   # field 22 of stat, counted from the name's closing bracket: the name may hold spaces
  line=$(cat "/proc/$1/stat") || return 1
  line=${line##*") "}
  set -- $line
  echo "${20}"
} 2>/dev/null

keep() {   # whole or not at all
  printf '%s\n' "$2" > "$d/$1.tmp" && mv "$d/$1.tmp" "$d/$1"
}

keep supervisor "$$ $(start_ticks $$)"
read -r boot_id < /proc/sys/kernel/random/boot_id
keep boot_id "$boot_id"

# The engine gets a session and a working directory of its own, the user's umask, no input, and every signal as it was meant: a shell without
# job control starts background commands with INT and QUIT ignored, and SGLang's children report their death by QUIT.
# Its environment is read last, by the shell that becomes the engine, so that it can disturb nothing of this.
(
  umask "$user_umask"
  exec "$python" -I -S -c '
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.setsid()
os.chdir(sys.argv[-1] + "/work")
os.execv(sys.argv[1], sys.argv[1:])
' /bin/sh -c '. "$1/environment" && . "$1/command" && exec "$@"' vigil "$d"
) >> "$d/log" 2>&1 < /dev/null &
child=$!
ticks=$(start_ticks "$child")
keep pid "$child $ticks"

# A signal to this shell ends the wait, not the child: wait again for as long as the same process is there.
while :; do
  wait "$child"
  code=$?
  [ "$(start_ticks "$child")" = "$ticks" ] || break
done

# exit.room was written with room for this line when the launch was staged: a full disk must not lose the exit code.
printf '%s %s\n' "$code" "$(date +%s)" 1<> "$d/exit.room" && mv "$d/exit.room" "$d/exit"
