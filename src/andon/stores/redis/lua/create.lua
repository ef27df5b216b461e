-- Store new records with their submit events, each idempotent by id: per record "c", "e" with
-- digest and state of what is there, "k" with the holder of its key, "f" with the oldest to evict,
-- "i" with why it cannot be written.
-- `create_alone` and `create_plain` take most records.
local refused = refuse_strangers()
if refused then return refused end

local MOST_OFFERED = 200
local {{fields.create ID, DEFINITION, STATUS, ENTRY, EVENT, KEEPS_KEY, HEAD, DIGEST, DAY, TALLY, HEIR_OF}}
local reply = {now}
local named = {}
local fresh = #A

-- The first refusal of a batch names as many to evict as are too many, each later one the next.
local function full(x)
  local queue = x[QUEUE]
  local config = config_of(queue)
  if not config.size or x[STATE] ~= 'pending' then return nil end
  flush()
  local surplus = call('ZCARD', list_of(queue, 'pending')) + 1 - config.size
  if surplus <= 0 then return nil end
  local outcome = {'f'}
  if config.discards == 1 then
    local start = named[queue] or 0
    named[queue] = start > 0 and start + 1 or math.min(surplus, MOST_OFFERED)
    for _, id in ipairs(call('ZRANGE', list_of(queue, 'pending'), start, named[queue] - 1)) do
      hand_out(outcome, id, parts(id))
    end
  end
  return outcome
end

-- Whether any of the ids may be taken, by one look at all of them.
local function any_taken()
  local keys = {}
  for i, item in ipairs(A) do
    keys[2 * i - 1], keys[2 * i] = P .. 'task:' .. item[ID], P .. 'stub:' .. item[ID]
  end
  for i = 1, #keys, 1000 do
    if call('EXISTS', unpack(keys, i, math.min(i + 999, #keys))) > 0 then return true end
  end
  return false
end

local look = fresh > 0 and any_taken()
local here = {}

local function write(item)
  local id, x = item[ID], entry_of(item[ENTRY])
  local outcome = (look or here[id]) and taken(id)
  if not outcome and x[UNIQUE] and item[KEEPS_KEY] and not lapsed(x) then
    local holder = holder_of(x[UNIQUE], id)
    if holder and holder ~= item[HEIR_OF] then outcome = {'k', holder} end
  end
  outcome = outcome or full(x)
  if outcome then return outcome end
  is_writing = true
  local day = item[DAY]
  look_at_tally(x[QUEUE], day, item[TALLY])
  set_serial(day, so_far + 1)
  here[id] = true
  put_new(P .. 'task:' .. id, item[DEFINITION], item[STATUS], item[ENTRY], x[STATE],
    item[HEAD] .. serial .. ' ' .. item[DIGEST])
  introduce(x, serial, id)
  if x[UNIQUE] and item[KEEPS_KEY] and not lapsed(x) then reserve(x[UNIQUE], x[UNIQUE_UNTIL], id) end
  log[#log + 1] = item[EVENT]
  tally(x[QUEUE], day, item[TALLY], 1)
  return 'c'
end

for i, item in ipairs(A) do reply[i + 1] = alone(write, item) end
put_tallies()
finish()
return reply
