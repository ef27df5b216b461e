-- The fast path of `create`, tried before the shared parts, which would cost a small batch more than all
-- else: new records of pending tasks without keys, group or timer, if their queues are known and have
-- no limit of size, and none of the ids is taken. Anything else is left to `create`, with nothing written.
-- A has the groups, in turn: tasks that share an index entry and what their version begins with.
-- ARGV[3] and ARGV[4] are the status of all and what their events have before the id, or else empty;
-- then come the parts of each task, the last two only if the status is not that of all. No id comes
-- twice.
local {{fields.new_group ENTRY, HEAD, QUEUE, KIND, CREATED, SCORE, DAY, TALLY, LISTS, SIZE}}
local ID, DEFINITION, DIGEST, STATUS, EVENT = 1, 2, 3, 4, 5
local FIRST, FEW_LANES = 4, {{few_lanes}}
if #ARGV > FIRST then
  local common, begun, width = ARGV[3], ARGV[4], 3
  if common == '' then common, width = nil, 5 end
  local meta, task, stub = P .. 'meta', P .. 'task:', P .. 'stub:'
  local wanted, last = {'min_writer', 'stubs'}, nil
  for _, group in ipairs(A) do
    if group[QUEUE] ~= last then
      last = group[QUEUE]
      wanted[#wanted + 1] = 'queue:' .. last
    end
  end
  local found = call('HMGET', meta, unpack(wanted))
  local plain = found[1] == '{{writer_version}}'
  for i = 3, #wanted do plain = plain and (found[i] == 'free' or found[i] == 'open') end
  local ids, keys, n = {}, {}, 0
  for at = FIRST + ID, #ARGV, width do
    n = n + 1
    ids[n], keys[n] = ARGV[at], task .. ARGV[at]
  end
  plain = plain and call('EXISTS', unpack(keys)) == 0
  if plain and (tonumber(found[2]) or now + 1) > now then -- stubs last until then
    local stubs = {}
    for i = 1, n do stubs[i] = stub .. ids[i] end
    plain = call('EXISTS', unpack(stubs)) == 0
  end
  if plain then
    local lists, lanes, kinds_of, ready, log, at, made = {}, {}, {}, {}, {}, FIRST, 0
    {{tallies}}
    {{counted}}
    {{serial}}
    {{so_far}}
    local members, from = {}, nil
    local function put(key, score) {{gather(lists, key, score, ids, from, made)}} end
    for _, group in ipairs(A) do
      local entry, head, queue, kind, score = group[ENTRY], group[HEAD], group[QUEUE], group[KIND], group[SCORE]
      local kinds, waiting = kinds_of[queue], P .. 'ready:' .. queue .. '|' .. kind
      if not kinds then
        kinds = {}
        kinds_of[queue], ready[#ready + 1] = kinds, queue
      end
      if not lanes[waiting] then kinds[#kinds + 1] = kind end
      from = made
      local day = group[DAY]
      local day_number = tonumber(day)
      {{look_at_tally(queue, day, group[TALLY])}}
      for _ = 1, group[SIZE] do
        made = made + 1
        local id = ids[made]
        {{set_serial(day_number, so_far + made - from)}}
        {{put_new(keys[made], ARGV[at + DEFINITION], common or ARGV[at + STATUS], entry, 'pending',
          head .. serial .. ' ' .. ARGV[at + DIGEST])}}
        members[made] = serial .. id
        log[made] = common and begun .. id .. '\192' or ARGV[at + EVENT] -- \192: no result
        at = at + width
      end
      {{gather(lanes, waiting, score, members, from, made)}}
      {{each_place(put, queue, 'pending', group[CREATED], nil, false, group[LISTS])}}
      {{tally(queue, day, group[TALLY], group[SIZE])}}
    end
    {{put_tallies()}}
    for key, list in pairs(lists) do call('ZADD', key, unpack(list)) end
    -- What is kept beside lanes, as `lanes.lua` says.
    for queue, kinds in pairs(kinds_of) do
      local noted, heads = call('HGET', P .. 'ready', queue), P .. 'heads:' .. queue
      local lane_of = P .. 'ready:' .. queue .. '|'
      local only = noted and string.match(noted, '^=(.*)$')
      local before = tonumber(noted or '')
      local firsts, n = {}, before or 0
      for i, kind in ipairs(kinds) do
        local first = before and call('ZRANGE', lane_of .. kind, 0, 0)[1]
        if before and not first then n = n + 1 end
        firsts[i] = first
      end
      for _, kind in ipairs(kinds) do
        call('ZADD', lane_of .. kind, unpack(lanes[lane_of .. kind]))
      end
      if not before and #kinds == 1 and (not only or only == kinds[1]) then
        if not only then call('HSET', P .. 'ready', queue, '=' .. kinds[1]) end
      else
        if not before then
          n = #kinds
          local is_among = false
          for _, kind in ipairs(kinds) do is_among = is_among or kind == only end
          if only and not is_among then
            n = n + 1
            kinds[n] = only
          end
        end
        for i, kind in ipairs(kinds) do
          local first = call('ZRANGE', lane_of .. kind, 0, 0, 'WITHSCORES')
          if first[1] ~= firsts[i] then
            if firsts[i] then call('ZREM', heads, string.sub(firsts[i], 1, 12) .. kind) end
            call('ZADD', heads, first[2], string.sub(first[1], 1, 12) .. kind)
          end
        end
        if n ~= before then
          call('HSET', P .. 'ready', queue, n)
          if n > FEW_LANES then
            local all = call('ZRANGE', heads, 0, -1)
            for i, head in ipairs(all) do all[i] = string.sub(head, 13) end
            for i = 1, #all, 1000 do
              call('SADD', P .. 'kinds:' .. queue, unpack(all, i, math.min(i + 999, #all)))
            end
          end
        end
      end
    end
    call('RPUSH', P .. 'log', unpack(log))
    call('PUBLISH', string.match(P, '^{(.*):%d+}:$') .. ':hints:ready', table.concat(ready, '\n'))
    return {now}
  end
  local items, at = {}, FIRST -- as `create` takes them
  for _, group in ipairs(A) do
    for _ = 1, group[SIZE] do
      local id = ARGV[at + ID]
      items[#items + 1] = {
        [{{create_id}}] = id, [{{create_definition}}] = ARGV[at + DEFINITION],
        [{{create_status}}] = common or ARGV[at + STATUS], [{{create_entry}}] = group[ENTRY],
        [{{create_event}}] = common and begun .. id .. '\192' or ARGV[at + EVENT],
        [{{create_keeps_key}}] = true, [{{create_head}}] = group[HEAD],
        [{{create_digest}}] = ARGV[at + DIGEST], [{{create_day}}] = group[DAY],
        [{{create_tally}}] = group[TALLY]}
      at = at + width
    end
  end
  A = items
end
