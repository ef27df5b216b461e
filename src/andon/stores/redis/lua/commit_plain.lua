-- The fast path of `commit`, tried before the shared parts, which would cost a lone call more than all
-- else. It takes ends of runs, of tasks without keys, edges or moves kept apart, in queues without
-- limits, each of which leaves `active` for a list from which nothing is claimed. If one of them differs
-- from the record that was decided on, or has any of these, all is left to `commit`, with nothing written.
-- A has the groups, in turn: changes that share an index entry and what their versions begin with.
-- After ARGV[2] come the parts of each change; no id comes twice.
local ENTRY, GUARD, NEXT, QUEUE, STATE, CREATED, TIMER, DEAD_LETTER, RESULTS, DAY, TALLY, LISTS, SIZE =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
local ID, STATUS, EVENT, WRITE_ID, RESULT = 1, 2, 3, 4, 5
local UNSET, CLEARED = 0, 2 -- what becomes of the results of a group; else each is set
local FIRST, PARTS, LETTER_H, NEAR_MS = 2, 5, 104, {{near_timer_ms}}
if #ARGV > FIRST then
  local task, edges = P .. 'task:', P .. 'edges:'
  local wanted, last = {'min_writer'}, nil
  for _, group in ipairs(A) do
    if group[QUEUE] ~= last then
      last = group[QUEUE]
      wanted[#wanted + 1] = 'queue:' .. last
    end
  end
  local found = call('HMGET', P .. 'meta', unpack(wanted))
  local plain = found[1] == '{{writer_version}}'
  for i = 2, #wanted do plain = plain and found[i] == 'free' end

  local tasks, edged, tails, n = {}, {}, {}, 0
  for at = FIRST + ID, #ARGV, PARTS do
    n = n + 1
    tasks[n], edged[n] = task .. ARGV[at], edges .. ARGV[at]
  end
  plain = plain and call('EXISTS', unpack(edged)) == 0
  n = 0
  for _, group in ipairs(A) do
    local guard = group[GUARD]
    local size = #guard
    for _ = 1, plain and group[SIZE] or 0 do
      n = n + 1
      local held = redis.pcall('HMGET', tasks[n], 'v', 'st')
      local version = held[1]
      plain = plain and version and held[2] == 'active' and string.sub(version, 1, size) == guard
        and string.byte(version, size + 13) ~= LETTER_H
      if plain then tails[n] = string.sub(version, size + 1) end
    end
  end

  if plain then
    local timers = P .. 'timers'
    local removals, adds, ids, log, at, near = {}, {}, {}, {}, FIRST, false
    local day, field, tallied = nil, nil, 0 -- of the daily history, for groups that follow each other
    local function put_tally()
      if tallied > 0 and call('HINCRBY', P .. 'daily:' .. day, field, tallied) == tallied then
        call('SADD', P .. 'days', day)
      end
    end
    local function put_in(key, score, from, size)
      local flat = adds[key]
      if not flat then
        flat = {}
        adds[key] = flat
      end
      local i = #flat
      for made = from + 1, from + size do
        flat[i + 1], flat[i + 2] = score, ids[made]
        i = i + 2
      end
    end
    local function take_out(key, from, size)
      local flat = removals[key]
      if not flat then
        flat = {}
        removals[key] = flat
      end
      local i = #flat
      for made = from + 1, from + size do
        i = i + 1
        flat[i] = ids[made]
      end
    end
    n = 0
    for _, group in ipairs(A) do
      local entry, version, state, results = group[ENTRY], group[NEXT], group[STATE], group[RESULTS]
      local queue, timer, size = group[QUEUE], group[TIMER], group[SIZE]
      local before = n
      local its_field = group[TALLY] and group[TALLY] .. '|' .. queue
      if group[DAY] ~= day or its_field ~= field then
        put_tally()
        day, field, tallied = group[DAY], its_field, 0
      end
      if its_field then tallied = tallied + size end
      for _ = 1, size do
        n = n + 1
        ids[n], log[n] = ARGV[at + ID], ARGV[at + EVENT]
        if results == UNSET or results == CLEARED then
          call('HSET', tasks[n], 's', ARGV[at + STATUS], 'x', entry, 'st', state,
            'v', version .. tails[n], 'c', '')
          if results == CLEARED then call('HDEL', tasks[n], 'r') end
        else
          call('HSET', tasks[n], 's', ARGV[at + STATUS], 'x', entry, 'st', state,
            'v', version .. tails[n], 'c', '', 'r', ARGV[at + RESULT])
        end
        at = at + PARTS
      end
      take_out(P .. 'state:' .. queue .. '|active', before, size)
      put_in(P .. 'state:' .. queue .. '|' .. state, group[CREATED], before, size)
      if {{state in waits_for_time}} then -- as `due_of` says
        put_in(P .. 'due:' .. queue .. '|' .. state, timer or 0, before, size)
      end
      if group[DEAD_LETTER] then
        put_in(P .. 'dead:' .. queue, group[CREATED], before, size)
        put_in(P .. 'dead', group[CREATED], before, size)
      end
      if group[LISTS] then
        for _, name in ipairs(group[LISTS]) do put_in(P .. 'list:' .. name, group[CREATED], before, size) end
      end
      if timer then
        put_in(timers, timer, before, size)
        near = near or tonumber(timer) <= now + NEAR_MS
      else
        take_out(timers, before, size)
      end
    end
    put_tally()
    for key, flat in pairs(removals) do call('ZREM', key, unpack(flat)) end
    for key, flat in pairs(adds) do call('ZADD', key, unpack(flat)) end
    call('RPUSH', P .. 'log', unpack(log))
    local channel = string.match(P, '^{(.*):%d+}:$') .. ':hints:'
    call('PUBLISH', channel .. 'events', '')
    call('PUBLISH', channel .. 'task', table.concat(ids, '\n'))
    if near then call('PUBLISH', channel .. 'timer', '') end
    return {now}
  end

  local items, at = {}, FIRST -- as `commit` takes them
  for _, group in ipairs(A) do
    local results, result = group[RESULTS], nil
    if results == CLEARED then result = false end
    for _ = 1, group[SIZE] do
      if results ~= UNSET and results ~= CLEARED then result = ARGV[at + RESULT] end
      items[#items + 1] = {ARGV[at + ID], group[GUARD], group[NEXT], ARGV[at + STATUS],
        group[ENTRY], ARGV[at + EVENT], ARGV[at + WRITE_ID], '', group[DAY], group[TALLY], result}
      at = at + PARTS
    end
  end
  A = items
end
