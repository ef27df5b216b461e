-- The fast path of `commit`, tried before the shared parts, which would cost a lone call more than all
-- else. It takes ends of runs, of tasks without keys, edges or moves kept apart, in queues without
-- limits, each of which leaves `active` for a list from which nothing is claimed. If one of them differs
-- from the record that was decided on, or has any of these, all is left to `commit`, with nothing written.
-- A has the groups, in turn: changes that share an index entry and what their versions begin with.
-- After ARGV[2] come the parts of each change; no id comes twice.
local {{fields.end_group ENTRY, GUARD, NEXT, QUEUE, STATE, CREATED, TIMER, DEAD_LETTER, RESULTS}}
local {{fields.end_group DAY, TALLY, LISTS, SIZE}}
local ID, STATUS, EVENT, WRITE_ID, RESULT = 1, 2, 3, 4, 5
local SET, CLEARED = 1, 2 -- what becomes of the results of a group; else they stay as they are
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

  local ids, tasks, edged, tails, n = {}, {}, {}, {}, 0
  for at = FIRST + ID, #ARGV, PARTS do
    n = n + 1
    ids[n], tasks[n], edged[n] = ARGV[at], task .. ARGV[at], edges .. ARGV[at]
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
    local removals, adds, log, at, near = {}, {}, {}, FIRST, false
    {{tallies}}
    {{counted}}
    local from
    n = 0
    local function put(key, score) {{gather(adds, key, score, ids, from, n)}} end
    local function take_out(key)
      local members = removals[key] or {}
      removals[key] = members
      local i = #members
      for its = from + 1, n do
        i = i + 1
        members[i] = ids[its]
      end
    end
    for _, group in ipairs(A) do
      local entry, version, results = group[ENTRY], group[NEXT], group[RESULTS]
      local queue, state, timer = group[QUEUE], group[STATE], group[TIMER]
      from = n
      for _ = 1, group[SIZE] do
        n = n + 1
        log[n] = ARGV[at + EVENT]
        local result
        if results == SET then result = ARGV[at + RESULT] elseif results == CLEARED then result = false end
        {{put_move(tasks[n], ARGV[at + STATUS], entry, state, version .. tails[n], result, true)}}
        at = at + PARTS
      end
      take_out(P .. 'state:' .. queue .. '|active')
      {{each_place(put, queue, state, group[CREATED], timer, group[DEAD_LETTER], group[LISTS])}}
      if timer then
        put(timers, timer)
        near = near or tonumber(timer) <= now + NEAR_MS
      else
        take_out(timers)
      end
      if group[TALLY] then {{tally(queue, group[DAY], group[TALLY], group[SIZE])}} end
    end
    {{put_tallies()}}
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
      if results == SET then result = ARGV[at + RESULT] end
      items[#items + 1] = {ARGV[at + ID], group[GUARD], group[NEXT], ARGV[at + STATUS],
        group[ENTRY], ARGV[at + EVENT], ARGV[at + WRITE_ID], '', group[DAY], group[TALLY], result}
      at = at + PARTS
    end
  end
  A = items
end
