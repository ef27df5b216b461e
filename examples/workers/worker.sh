#!/bin/sh
# An Andon worker for any command, in POSIX shell with curl. The protocol: docs/worker-protocol.md
#
#   ANDON_URL=http://127.0.0.1:8640 [ANDON_TOKEN=…] [TYPES=words.count,mail.*] \
#       sh worker.sh QUEUE COMMAND [ARGUMENT…]
#
# Each task of the queue, or of the TYPES that are named, runs COMMAND: its arguments come as JSON on standard input, its name as
# ANDON_TASK, its id as ANDON_ID. Exit status 0 completes the task with what was printed, which has
# to be JSON; 65 means arguments that can never work, 75 and all others a failure that may be tried
# again. One task at a time; start as many workers as should run at once.
set -u

url=${ANDON_URL:-http://127.0.0.1:8640}
queue=${1:?usage: worker.sh QUEUE COMMAND [ARGUMENT...]}
shift
: "${1:?usage: worker.sh QUEUE COMMAND [ARGUMENT...]}"
lease=${LEASE:-30}
worker=$(uname -n | tr -c 'A-Za-z0-9\n' -):$$
types=
[ -z "${TYPES:-}" ] || types=',"types":["'$(printf '%s' "$TYPES" | sed 's/,/","/g')'"]'
folder=$(mktemp -d)
child= stopping=
trap 'rm -rf "$folder"' EXIT
trap 'stopping=1' TERM INT

# post PATH TOKEN SECONDS: sends standard input, leaves the answer in $folder/reply and the HTTP
# status (000: no answer) in $status. The token goes by a file, since a command line can be seen.
post() {
    printf 'header = "Authorization: Bearer %s"\n' "$2" >"$folder/header"
    [ -n "$2" ] || : >"$folder/header"
    status=$(curl --silent --max-time "$3" --config "$folder/header" \
        --header 'Content-Type: application/json' --data-binary @- \
        --output "$folder/reply" --write-out '%{http_code}' "$url$1") || status=000
}

# field NAME: a string or number of the claimed run. What its submitter wrote comes last and was cut
# off; headers end in a brace and arguments follow them, which nothing within headers can look like.
field() {
    printf '%s' "$head" | sed -n 's/.*[{,]"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p'
}

# text: standard input as the inside of a JSON string, at most 2,000 bytes of it.
text() {
    tail -c 2000 | LC_ALL=C tr -c '\040-\176' ' ' | sed 's/\\/\\\\/g; s/"/\\"/g'
}

claim() {
    claim_token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    # A claim whose answer was lost is sent again with its token, and gives the same run.
    for try in 1 2 3; do
        post /api/v1/runs/claim "${ANDON_TOKEN:-}" 30 <<JSON
{"worker":"$worker","queues":["$queue"],"limit":1,"lease":$lease,"wait":${WAIT:-10},"token":"$claim_token"$types}
JSON
        [ "$status" = 000 ] || break
        [ -z "$stopping" ] || break
        sleep "$try"
    done
}

# report JSON: until it was taken or refused for good.
report() {
    for wait in 1 1 2 4 8 15; do
        post "$path/report" "$token" 10 <<JSON
$1
JSON
        case $status in
            2??) return 0 ;;
            000 | 429 | 5??) sleep "$wait" ;;
            *) break ;;
        esac
    done
    echo "run $number of $id was not taken ($status)" >&2
    return 1
}

# renew: keeps the lease while the command runs; stops the command when the run is no longer ours.
renew() {
    every=$((lease / 3))
    [ "$every" -ge 1 ] || every=1
    waited=0
    while kill -0 "$child" 2>/dev/null; do
        sleep 0.2 2>/dev/null || sleep 1
        waited=$((waited + 1))
        [ $((waited / 5)) -ge "$every" ] || continue
        waited=0
        post "$path/renew" "$token" 5 <<JSON
{"lease":$lease}
JSON
        case $status in
            401 | 409) verdict=lost ;;
            *) grep -q '"verdict":"cancel"' "$folder/reply" && verdict=cancelled ;;
        esac
        [ -z "$verdict" ] || kill "$child" 2>/dev/null
    done
}

conduct() {
    body=$(cat "$folder/reply")
    head=${body%%,\"dependencies\":*}
    args=${body#*\},\"args\":}
    args=${args%\}]\}}
    id=$(field task_id) number=$(field run) token=$(field token)
    path=/api/v1/runs/$id/$number verdict=
    printf '%s' "$args" |
        ANDON_ID=$id ANDON_TASK=$(field name) "$@" >"$folder/out" 2>"$folder/err" &
    child=$!
    renew
    wait "$child"
    code=$?
    child=
    case $verdict in
        lost) return ;;
        cancelled) report '{"outcome":"exception","reason":"cancelled"}'; return ;;
    esac
    error="{\"message\":\"exit status $code: $(text <"$folder/err")\",\"code\":\"EXIT_$code\"}"
    case $code in
        0)
            report "{\"outcome\":\"completed\",\"result\":$(cat "$folder/out")}" ||
                [ "$status" = 409 ] ||
                report '{"outcome":"exception","reason":"result-invalid"}'
            ;;
        65) report "{\"outcome\":\"exception\",\"reason\":\"malformed-payload\",\"error\":$error}" ;;
        *) report "{\"outcome\":\"failed\",\"error\":$error}" ;;
    esac
}

echo "worker $worker claims from $queue"
while [ -z "$stopping" ]; do
    claim
    case $status in
        200) ! grep -q '"task_id"' "$folder/reply" || conduct "$@" ;;
        *) echo "a claim failed ($status): $(cat "$folder/reply" 2>/dev/null)" >&2; sleep 2 ;;
    esac
done
