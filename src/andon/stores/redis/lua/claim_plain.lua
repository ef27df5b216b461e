-- The fast path of `claim`, tried before the shared parts, which would cost a lone claim more than all
-- else. It takes a claim that is no repeat, with room for every type, from queues without limits, each
-- with nothing ready or with one kind that the worker has code for, of tasks without keys, deadline or
-- moves kept apart. Anything else is left to `claim`, with nothing written.
local {{fields.entry KEY, DEAD_AT, UNIQUE, CREATED}}
local WORKER, TOKEN, LIMIT, LEASE_MS, ROOM, QUEUES, GRANTS, PART_OF = 1, 2, 3, 4, 5, 6, 7, 8
-- Number, channel and ms; token and queues of the claim that waited before; then the code.
local STANDS, STOOD, CODE, KNOWN = 9, 10, 11, 12
local NEAR_MS, WINDOW_MS, MOST, MOST_QUEUES, MOST_KINDS =
  {{near_timer_ms}}, {{submit_window_ms}}, 999, 50, {{most_kinds}}
local stood = A[STOOD]
-- What stood before stands no more, whichever way this claim goes on; but if it stands again at the
-- same places, what it writes there is enough.
local function take_back()
  local places, gone = {}, {}
  for i, queue in ipairs(stood[2]) do places[i] = 'stands:' .. queue end
  for i, left in ipairs(call('HMGET', P .. 'meta', unpack(places))) do
    if left and cmsgpack.unpack(left)[1] == stood[1] then gone[#gone + 1] = places[i] end
  end
  if #gone > 0 then call('HDEL', P .. 'meta', unpack(gone)) end
  stood = nil
end
if not (A[ROOM] or A[GRANTS] or A[PART_OF] or A[KNOWN]) and A[LIMIT] <= MOST
  and #A[QUEUES] <= MOST_QUEUES then
  local token, limit, queues, code = A[TOKEN], A[LIMIT], A[QUEUES], A[CODE]
  local wanted, seen, twice = {'min_writer'}, {}, false
  for i, queue in ipairs(queues) do
    wanted[i + 1] = 'queue:' .. queue
    twice = twice or seen[queue]
    seen[queue] = true
  end
  local last = #wanted
  if A[STANDS] then
    for i, queue in ipairs(queues) do wanted[last + i] = 'stands:' .. queue end
    for _, queue in ipairs(stood and stood[2] or {}) do twice = twice or not seen[queue] end
  end
  local found = call('HMGET', P .. 'meta', unpack(wanted))
  local plain = found[1] == '{{writer_version}}' and not twice
  for i = 2, last do plain = plain and (not found[i] or found[i] == 'free') end
  local token_key = P .. 'claim:' .. token
  plain = plain and not call('GET', token_key)

  -- What stands first, then whether each of it is plain.
  local of, kinds, first_of, lasts, records, entries, n = {}, {}, {}, {}, {}, {}, 0
  local ready = plain and #queues > 0 and call('HMGET', P .. 'ready', unpack(queues)) or {}
  for i in ipairs(ready) do -- of a queue that nothing is known of, nothing is ready
    plain = plain and (found[i + 1] or not ready[i])
  end
  for i, queue in ipairs(queues) do
    if not plain or n >= limit then break end
    local which = ready[i] and string.match(ready[i], '^=(.*)$')
    if which then -- the queue's only kind
      if code and call('SISMEMBER', P .. 'can:' .. code, which) == 0 then
        plain = call('SISMEMBER', P .. 'cannot:' .. code, which) == 1
        which = nil
      end
    elseif ready[i] then
      local heads, waiting = call('ZRANGE', P .. 'heads:' .. queue, 0, MOST_KINDS), {}
      for j, head in ipairs(heads) do waiting[j] = string.sub(head, 13) end
      plain = code and #heads <= MOST_KINDS
      local can = plain and call('SMISMEMBER', P .. 'can:' .. code, unpack(waiting)) or {}
      local cannot = plain and call('SMISMEMBER', P .. 'cannot:' .. code, unpack(waiting)) or {}
      for j = 1, plain and #waiting or 0 do
        if can[j] == 1 then
          plain = plain and not which -- which of two comes first is not looked into here
          which, first_of[i] = waiting[j], heads[j]
        end
        plain = plain and (can[j] == 1 or cannot[j] == 1)
      end
    end
    if plain and which then
      local entries_of = call('ZRANGE', P .. 'ready:' .. queue .. '|' .. which, 0, limit - n)
      plain = #entries_of > 0
      -- one more than are wanted: whether the lane goes on
      if #entries_of > limit - n then entries_of[#entries_of], lasts[i] = nil, true end
      of[i], kinds[i] = entries_of, which
      n = n + #entries_of
    end
  end
  n = 0
  for i = 1, plain and #queues or 0 do
    for _, member in ipairs(of[i] or {}) do
      n = n + 1
      local id = string.sub(member, 13)
      local task = P .. 'task:' .. id
      local record = redis.pcall('HMGET', task, 'd', 's', 'x', 'v')
      local d, s, packed = string.byte(record[1] or ''), string.byte(record[2] or ''), record[3]
      -- packed maps, as far as their first byte tells
      plain = plain and d and s and (d >= 0x80 and d <= 0x8f or d == 0xde or d == 0xdf)
        and (s >= 0x80 and s <= 0x8f or s == 0xde or s == 0xdf)
      if not plain then break end
      local x = entries[packed]
      if not x then
        plain, x = pcall(cmsgpack.unpack, packed)
        if not plain then break end
        entries[packed] = x
      end
      local before, rest, apart = string.match(record[4] or '', '^(%d+)( %d+ %x+(h?) .*)$')
      plain = apart == '' and type(x) == 'table' and not (x[KEY] or x[UNIQUE] or x[DEAD_AT])
      record[3], record[4], record[5], record[6], record[7] = x, before, rest, id, task
      records[n] = record
    end
    if not plain then break end
  end

  if plain then
    local claimed = {now, 'claim', 0, false, false, false, 0} -- as `claim` says what it has nothing of
    if n == 0 then
      -- It stands where no other does; `create_alone` hands over to it.
      if A[STANDS] then
        local free, row = {}, {}
        for i = last + 1, #wanted do
          local left = found[i] and cmsgpack.unpack(found[i])
          if not left or left[3] < now or left[1] == token then free[#free + 1] = wanted[i] end
        end
        local stands = cmsgpack.pack({token, A[STANDS][1], now + A[STANDS][3], A[STANDS][2],
          A[WORKER], A[LEASE_MS], queues, free, A[CODE] or ''})
        for i, place in ipairs(free) do row[2 * i - 1], row[2 * i] = place, stands end
        if #free > 0 then call('HSET', P .. 'meta', unpack(row)) end
        if stood and stood[1] == token then return claimed end
      end
      if stood then take_back() end
      return claimed
    end
    if stood then take_back() end
    {{run_version}} -- and the other variables of `stamp`
    {{begin_claim(A[WORKER], token, now + A[LEASE_MS])}}
    local ids, log, timers, armed, near, at = {}, {}, {}, nil, false, 7
    n = 0
    for i, queue in ipairs(queues) do
      local lane, moved, into = of[i] or {}, {}, {}
      for j = 1, #lane do
        n = n + 1
        local record = records[n]
        local x, id = record[3], record[6]
        {{stamp(id, x, record[4], record[5], n)}}
        {{put_stamp(record[7])}}
        log[n], ids[n], moved[j] = run_event, id, id
        into[2 * j - 1], into[2 * j] = x[CREATED], id
        timers[2 * n - 1], timers[2 * n] = run_timer, id
        if run_timer ~= armed then
          armed = run_timer
          near = near or tonumber(run_timer) <= now + NEAR_MS
        end
        claimed[at + 1], claimed[at + 2], claimed[at + 3], claimed[at + 4] =
          id, record[1], record[2], run_fence
        at = at + 4
      end
      if #lane > 0 then
        local kind, heads = kinds[i], P .. 'heads:' .. queue
        local waiting = P .. 'ready:' .. queue .. '|' .. kind
        call('ZREM', waiting, unpack(lane))
        if not first_of[i] then -- it is the queue's only lane
          if not lasts[i] then call('HDEL', P .. 'ready', queue) end
        else
          call('ZREM', heads, first_of[i])
          if lasts[i] then
            local first = call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
            call('ZADD', heads, first[2], string.sub(first[1], 1, 12) .. kind)
          elseif call('HINCRBY', P .. 'ready', queue, -1) == 1 then
            call('HSET', P .. 'ready', queue, '=' .. string.sub(call('ZRANGE', heads, 0, 0)[1], 13))
            call('DEL', heads)
          end
        end
        call('ZREM', P .. 'state:' .. queue .. '|pending', unpack(moved))
        call('ZADD', P .. 'state:' .. queue .. '|active', unpack(into))
      end
    end
    local all = table.concat(ids, '\n')
    call('ZADD', P .. 'timers', unpack(timers))
    call('SET', token_key, all, 'PX', WINDOW_MS)
    call('RPUSH', P .. 'log', unpack(log))
    local channel = string.match(P, '^{(.*):%d+}:$') .. ':hints:'
    call('PUBLISH', channel .. 'events', '')
    call('PUBLISH', channel .. 'run', all)
    if near then call('PUBLISH', channel .. 'timer', '') end
    return claimed
  end
end
if stood then take_back() end
