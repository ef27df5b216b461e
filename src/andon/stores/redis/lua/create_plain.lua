-- The fast path of `create`, tried before the shared parts, which would cost a small batch more than all
-- else: new records of pending tasks without keys, group or timer, if their queues are known and have
-- no limit of size, and none of the ids is taken. Anything else is left to `create`, with nothing written.
-- A has the groups, in turn: tasks that share an index entry and what their version begins with.
-- ARGV[3] and ARGV[4] are the status of all and what their events have before the id, or else empty;
-- then come the parts of each task, the last two only if the status is not that of all. No id comes
-- twice.
local ENTRY, HEAD, QUEUE, KIND, CREATED, SCORE, DAY, TALLY, LISTS, SIZE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
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
  local keys, n = {}, 0
  for at = FIRST + ID, #ARGV, width do
    n = n + 1
    keys[n] = task .. ARGV[at]
  end
  plain = plain and call('EXISTS', unpack(keys)) == 0
  if plain and (tonumber(found[2]) or now + 1) > now then -- stubs last until then
    local stubs = {}
    for i = 1, n do stubs[i] = stub .. ARGV[FIRST + ID + (i - 1) * width] end
    plain = call('EXISTS', unpack(stubs)) == 0
  end
  if plain then
    local number = call('HINCRBY', meta, 'number', n) - n
    local lists, lanes, kinds_of, ready, log, at, made = {}, {}, {}, {}, {}, FIRST, 0
    local day, field, tallied = nil, nil, 0 -- of the daily history, for groups that follow each other
    local function put_tally()
      if tallied > 0 and call('HINCRBY', P .. 'daily:' .. day, field, tallied) == tallied then
        call('SADD', P .. 'days', day)
      end
    end
    for _, group in ipairs(A) do
      local entry, head, queue, kind = group[ENTRY], group[HEAD], group[QUEUE], group[KIND]
      local score, created, its_field = group[SCORE], group[CREATED], group[TALLY] .. '|' .. queue
      if group[DAY] ~= day or its_field ~= field then
        put_tally()
        day, field, tallied = group[DAY], its_field, 0
      end
      tallied = tallied + group[SIZE]
      local pending, waiting = P .. 'state:' .. queue .. '|pending', P .. 'ready:' .. queue .. '|' .. kind
      local list, lane = lists[pending], lanes[waiting]
      if not list then
        list = {}
        lists[pending] = list
        ready[#ready + 1] = queue
      end
      if not lane then
        lane = {}
        lanes[waiting] = lane
        local of = kinds_of[queue] or {}
        kinds_of[queue], of[#of + 1] = of, kind
      end
      for _, name in ipairs(group[LISTS] or {}) do
        local named = lists[P .. 'list:' .. name] or {}
        lists[P .. 'list:' .. name] = named
        local k, at_id = #named, at + ID
        for _ = 1, group[SIZE] do
          named[k + 1], named[k + 2] = created, ARGV[at_id]
          k, at_id = k + 2, at_id + width
        end
      end
      local i, j = #list, #lane
      for _ = 1, group[SIZE] do
        made = made + 1
        local id, serial = ARGV[at + ID], string.format('%012d', number + made)
        call('HSET', keys[made], 'd', ARGV[at + DEFINITION], 's', common or ARGV[at + STATUS],
          'x', entry, 'st', 'pending', 'v', head .. serial .. ' ' .. ARGV[at + DIGEST])
        list[i + 1], list[i + 2] = created, id
        lane[j + 1], lane[j + 2] = score, serial .. id
        log[made] = common and begun .. id .. '\192' or ARGV[at + EVENT] -- \192: no result
        i, j, at = i + 2, j + 2, at + width
      end
    end
    put_tally()
    for key, flat in pairs(lists) do call('ZADD', key, unpack(flat)) end
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
