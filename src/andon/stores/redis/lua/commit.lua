-- Write decided moves, each if the record is still what it was decided on: per change "a" (applied;
-- "d" if it has dependents to be told), "g" (gone), "k" with the holder of its key, "n" (needed)
-- with the children that hold a record that was to be deleted, or "x" (the record has moved) with
-- whether it has edges and the record as it is. About 20 microseconds a change.
local refused = refuse_strangers()
if refused then return refused end

local ID, REVISION, CREATED_AT, SEEN_LEASE, STATUS, ENTRY, EVENT = 1, 2, 3, 4, 5, 6, 7
local SETS_RESULT, RESULT, FORCE, DISCARD, WORKER, WRITE_ID, HISTORY = 8, 9, 10, 11, 12, 13, 14
local ASKED, UNREADABLE, TELLS, AFTER_REVISION, RESERVED = 15, 16, 17, 18, 19
local MOST_HOLDERS = 200

local function conflict(id)
  local found = parts(id)
  return {'x', any_edges(id) and 1 or 0, unpack(found, 1, 6)}
end

local function told(id, state)
  if LIVE[state] or state == 'unknown' or not any_edges(id) then return 'a' end
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

local function apply(item)
  local id = item[ID]
  local task = P .. 'task:' .. id
  local found = call('HMGET', task, 'v', 'st', 'x', 'c')
  local st = found[2]
  if not st then
    local stub = stub_of(id)
    if stub then
      for i = 4, #stub do
        if stub[i] == item[WRITE_ID] and stub[i] ~= '' then return 'a' end
      end
    end
    return 'g'
  end
  local revision, created, number, apart = revision_of(found[1])
  if tonumber(created) ~= item[CREATED_AT] then return 'g' end
  if item[UNREADABLE] and st ~= 'unknown' then
    set_aside(id) -- whoever read it found that it does not decode
    return conflict(id)
  end
  if tonumber(revision) ~= item[REVISION] then return conflict(id) end
  if item[SEEN_LEASE] then
    local lease = found[4] and cmsgpack.unpack(found[4])[C_LEASE]
    if lease ~= item[SEEN_LEASE] then return conflict(id) end
  end
  local old = cmsgpack.unpack(found[3])
  local new = item[ENTRY] and cmsgpack.unpack(item[ENTRY])
  if not new and not item[FORCE] and held(id) then return {'n', unpack(holders(id))} end
  local had = holds_key(old, st)
  local takes = new and new[UNIQUE] and not had and not lapsed(new)
  if takes and item[RESERVED] == 0 then
    local holder = holder_of(new[UNIQUE], id)
    if holder then return {'k', holder} end
  end

  local queue, key = old[QUEUE], old[KEY]
  if new and new[STATE] == st and st ~= 'pending' and not old[DEAD_LETTER] then
    if st == 'active' then hint('control', item[WORKER]) end
  else
    leave(old, st, number, id, item[WORKER])
    if new then enter(new, number, id) end
    if key then promote(queue, key, 1000) end
  end
  if had and item[RESERVED] == 0 and not (new and new[UNIQUE]) then let_go_of(old[UNIQUE], id) end
  if takes and item[RESERVED] == 0 then reserve(new[UNIQUE], new[UNIQUE_UNTIL], id) end
  if item[TELLS] and item[WORKER] ~= '' then hint('control', item[WORKER]) end
  log[#log + 1] = item[EVENT]
  hint('task', id)

  if not new then
    remove(id, old, st, {call('HGET', task, 'w') or '', item[WRITE_ID]})
    return 'a'
  end
  local state = new[STATE]
  if item[DISCARD] and not held(id) then
    -- watchers see the end, then the record goes
    call('ZREM', list_of(queue, state), id)
    if new[DEAD_LETTER] then call('ZREM', P .. 'dead:' .. queue, id) end
    if new[UNIQUE] and item[RESERVED] == 0 then let_go_of(new[UNIQUE], id) end
    remove(id, new, state, {item[WRITE_ID]})
    log[#log + 1] = item[DISCARD]
    return 'a'
  end
  if apart ~= '' then
    keep_apart(id, item[EVENT])
  elseif item[HISTORY] then
    call('RPUSH', P .. 'history:' .. id, unpack(item[HISTORY]))
    apart = 'h'
  end
  -- 'w' is what a stub will need: the write that ended the task, whose reply may be lost
  call('HSET', task, 's', item[STATUS], 'x', item[ENTRY], 'st', state,
    'v', version_of(item[AFTER_REVISION], created, number, apart), 'w', item[WRITE_ID])
  if state == 'active' then
    if item[ASKED] then call('HSET', task, 'q', '1') end
  elseif found[4] then
    call('HDEL', task, 'c', 'q')
  end
  if item[SETS_RESULT] then
    if item[RESULT] then call('HSET', task, 'r', item[RESULT]) else call('HDEL', task, 'r') end
  end
  set_timer(id, new[TIMER])
  if LIVE[state] and not LIVE[st] then call('ZREM', P .. 'fanout', id) end
  return told(id, state)
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = apply(item) end
finish()
return reply
