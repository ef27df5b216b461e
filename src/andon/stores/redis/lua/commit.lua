-- Write decided moves, each if the record is still what it was decided on: per change "a" (applied;
-- "d" if it has dependents to be told), "g" (gone), "k" with the holder of its key, "n" (needed)
-- with the children that hold a record that was to be deleted, "x" (the record has moved) with
-- whether it has edges and the record as it is, or "i" (it cannot be written) with why.
-- `commit_plain` takes most changes.
local refused = refuse_strangers()
if refused then return refused end

-- Places in a change; those from RARE on may be missing. GUARD and NEXT are what the version begins
-- with before and after. RESULT is nil where none is set, and false where none is there any more.
local ID, GUARD, NEXT, STATUS, ENTRY, EVENT, WRITE_ID, WORKER, DAY, TALLY, RESULT =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
-- WORKER is who learns of the move, if anybody. TALLY is what the move is counted as on its DAY, or
-- false. ASKED names the run that was asked to stop, LAST the
-- write that a deletion follows, LAST_RUN what the stub of a record that goes tells of its last run.
local SEEN_LEASE, FORCE, DISCARD, HISTORY, ASKED, UNREADABLE, RESERVED, LAST, LAST_RUN =
  12, 13, 14, 15, 16, 17, 18, 19, 20
local MOST_HOLDERS = 200
local LETTER_H = 104 -- "h", after the number in a version whose moves are kept apart

-- Whether any of the tasks may have edges, by one look at all of them. Whatever holds an end up or
-- a deletion is an edge.
local function any_edged()
  local keys = {}
  for i, item in ipairs(A) do keys[i] = P .. 'edges:' .. item[ID] end
  for i = 1, #keys, 1000 do
    if call('EXISTS', unpack(keys, i, math.min(i + 999, #keys))) > 0 then return true end
  end
  return false
end
local edged = any_edged()

local function conflict(id)
  local found = parts(id)
  return {'x', any_edges(id) and 1 or 0, unpack(found, 1, 6)}
end

local function told(id, state)
  if not edged or LIVE[state] or state == 'unknown' or not any_edges(id) then return 'a' end
  if call('EXISTS', P .. 'untold:' .. id) == 1 then
    call('ZADD', P .. 'fanout', call('HINCRBY', P .. 'meta', 'turn', 1), id)
  end
  return 'd'
end

local function holders(id)
  local found = call('SRANDMEMBER', P .. 'untold:' .. id, MOST_HOLDERS)
  for _, child in ipairs(call('SRANDMEMBER', P .. 'loading:' .. id, MOST_HOLDERS)) do
    found[#found + 1] = child
  end
  return found
end

-- A claim leaves the index entry as it was while the task was pending.
local function holds_key(x, st)
  return x[UNIQUE] and not (st == 'active' and x[STATE] == 'pending' and x[FREES_ON_CLAIM])
end

local function digest_in(tail) return string.match(tail, '^%x+h? (.*)$') end

-- The position in the log that the next event will have. What is in `log` is added at the end.
local log_end
local function next_position()
  if not log_end then
    log_end = tonumber(call('HGET', P .. 'meta', 'log_start') or 0) + call('LLEN', P .. 'log')
  end
  return log_end + #log
end

local function apply(item)
  local id = item[ID]
  local task = P .. 'task:' .. id
  local found = call('HMGET', task, 'v', 'st', 'x')
  local st = found[2]
  if not st then
    local stub = stub_of(id)
    if stub then
      for i = 5, #stub do
        if stub[i] == item[WRITE_ID] and stub[i] ~= '' then return 'a' end
      end
    end
    return 'g'
  end
  local guard, version = item[GUARD], found[1]
  local old, new = entry_of(found[3]), item[ENTRY] and entry_of(item[ENTRY])
  if (not old or not version) and st ~= 'unknown' then
    set_aside(id, new and new[QUEUE])
    return conflict(id)
  end
  local same = string.sub(version, 1, #guard) == guard
  if not same and string.match(version, ' %d+ ') ~= string.match(guard, ' %d+ ') then
    return 'g' -- another task of that id
  end
  if item[UNREADABLE] and st ~= 'unknown' then
    set_aside(id) -- whoever read it found that it does not decode
    return conflict(id)
  end
  if not same then return conflict(id) end
  if item[SEEN_LEASE] then
    local cell = call('HGET', task, 'c') or ''
    if (cell_of(cell) or {})[C_LEASE] ~= item[SEEN_LEASE] then return conflict(id) end
  end
  local tail = string.sub(version, #guard + 1)
  if not new and not item[FORCE] and edged and held(id) then return {'n', unpack(holders(id))} end
  local had = holds_key(old, st)
  local takes = new and new[UNIQUE] and not had and not lapsed(new)
  if takes and not item[RESERVED] then
    local holder = holder_of(new[UNIQUE], id)
    if holder then return {'k', holder} end
  end

  local queue, key = old[QUEUE], old[KEY]
  local discarded = new and item[DISCARD] and not (edged and held(id))
  is_writing = true
  local stays = new and not discarded and new[STATE] == st and st ~= 'pending' and not old[DEAD_LETTER]
  if not stays then
    local number = string.sub(tail, 1, 12)
    leave(old, st, number, id)
    if new and not discarded then enter(new, number, id) end
    if key then promote(queue, key, 1000) end
  else
    local due = due_of(queue, st)
    if due then put_in(due, new[TIMER] or 0, id) end
  end
  if had and not item[RESERVED] and not (new and new[UNIQUE]) then let_go_of(old[UNIQUE], id) end
  if takes and not item[RESERVED] then reserve(new[UNIQUE], new[UNIQUE_UNTIL], id) end
  if item[WORKER] ~= '' then hint('control', item[WORKER]) end
  log[#log + 1] = item[EVENT]
  if item[TALLY] then tally(queue, item[DAY], item[TALLY], 1) end
  hint('task', id)

  if not new then
    remove(id, old, st, digest_in(tail), item[LAST_RUN] or '', {item[LAST] or '', item[WRITE_ID]})
    return 'a'
  end
  local state = new[STATE]
  if discarded then
    -- watchers see the end before the record is deleted
    if new[UNIQUE] and not item[RESERVED] then let_go_of(new[UNIQUE], id) end
    remove(id, new, state, digest_in(tail), item[LAST_RUN] or '', {item[WRITE_ID], next_position() - 1})
    log[#log + 1] = item[DISCARD]
    return 'a'
  end
  if string.byte(tail, 13) == LETTER_H then
    keep_apart(id, item[EVENT])
  elseif item[HISTORY] then
    call('RPUSH', P .. 'history:' .. id, unpack(item[HISTORY]))
    tail = string.sub(tail, 1, 12) .. 'h' .. string.sub(tail, 13)
  end
  put_move(task, item[STATUS], item[ENTRY], state, item[NEXT] .. tail, item[RESULT],
    st == 'active' and state ~= 'active')
  if item[ASKED] then call('HSET', task, 'q', item[ASKED]) end
  set_timer(id, new[TIMER])
  if LIVE[state] and not LIVE[st] then call('ZREM', P .. 'fanout', id) end
  return told(id, state)
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(apply, item) end
put_tallies()
finish()
return reply
