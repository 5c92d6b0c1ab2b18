#define NOTIFY_DIR "/var/lib/ranktrace/notify"
#define NOTIFY_ACKS "acknowledged"
