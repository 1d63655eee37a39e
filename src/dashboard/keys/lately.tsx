/** What came of a key lately: its last days as columns, and its last requests. */
import type { KeyDocument } from '../../documents/key.ts'
import { toHref } from '../address/address.ts'
import { toExactCount } from '../figures/counts.ts'
import { toMoney } from '../figures/money.ts'
import { toDay } from '../figures/times.ts'
import { STATUS_KINDS } from '../requests/words.ts'
import { Latency, Money, nowMs, State, When } from '../ui/figure.tsx'
import { Columns } from '../ui/spark.tsx'
import { useDays, useLastRequests } from './data.ts'
import { DAYS, type Day } from './days.ts'

export function LastDays({ of: key }: { of: KeyDocument }) {
  const days = useDays([key.id]).data
  if (days !== null) return <Days of={days.get(key.id) ?? []} />
  // Its room is there before it is.
  return key.last_used_ms === null ? null : <div class="lately" />
}

function Days({ of: days }: { of: readonly Day[] }) {
  if (days.length === 0) return null
  const isFree = days.every(({ costNanoUsd }) => costNanoUsd === 0)
  const textOf = (requests: number, costNanoUsd: number) =>
    `${toExactCount(requests)} ${requests === 1 ? 'request' : 'requests'}${isFree ? '' : `, ${toMoney(costNanoUsd)}`}`
  const sum = (pick: (day: Day) => number) => days.reduce((all, day) => all + pick(day), 0)
  const total = textOf(
    sum(({ requests }) => requests),
    sum(({ costNanoUsd }) => costNanoUsd),
  )
  return (
    <section class="lately">
      <h3 class="lately-title">
        {total} in {DAYS} days
      </h3>
      <Columns
        values={days.map(({ requests, costNanoUsd }) => (isFree ? requests : costNanoUsd))}
        label={`By day: ${total}`}
        isLastUnderWay
        titleOf={(index) => {
          const day = days[index]
          return day ? `${toDay(day.ms, nowMs.value, 'UTC')}: ${textOf(day.requests, day.costNanoUsd)}` : ''
        }}
      />
    </section>
  )
}

export function LastRequests({ of: key }: { of: KeyDocument }) {
  const requests = useLastRequests(key.id).data ?? []
  if (requests.length === 0) return null
  return (
    <section>
      <h3 class="lately-title">Last requests</h3>
      <ul class="last-requests">
        {requests.map(({ id, created_ms, model, status, cost_nano_usd, duration_ms, estimated }) => (
          <li key={id} class="last-request">
            <State kind={STATUS_KINDS[status]}>{status}</State>
            <a href={toHref(`/requests/${id}`)}>
              <code>{model}</code>
            </a>
            <span class="dim">{duration_ms !== null && <Latency ms={duration_ms} />}</span>
            {cost_nano_usd === null ? <span /> : <Money nanoUsd={cost_nano_usd} isEstimated={estimated === 1} />}
            <span class="dim">
              <When ms={created_ms} />
            </span>
          </li>
        ))}
      </ul>
      <p class="lately-all">
        <a href={toHref(`/requests?key=${key.id}`)}>All of its requests</a>
      </p>
    </section>
  )
}
