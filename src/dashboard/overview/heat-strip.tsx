/** When it is used: a week, hour by hour. Each day leads to the same in charts. */
import { DAY_MS } from '../../domain/time.ts'
import { toHrefWith } from '../address/address.ts'
import { toExactCount } from '../figures/counts.ts'
import { toMoment } from '../figures/times.ts'
import { nowMs } from '../ui/figure.tsx'
import { type Overview, useHeat } from './data.ts'
import { HEAT_DAYS, toBusiest, toShade } from './heat.ts'
import { toQuery } from './range.ts'

const HOURS = Array.from({ length: 24 }, (_, hour) => hour)
const toClock = (hour: number) => `${String(hour).padStart(2, '0')}:00`

const toDayName = (ms: number) =>
  new Intl.DateTimeFormat('en-US', { weekday: 'short', month: 'short', day: 'numeric', timeZone: 'UTC' }).format(ms)

export function HeatStrip({ of }: { of: Overview }) {
  const { data: days } = useHeat(of)
  const busiest = days && toBusiest(days)
  const toText = (requests: number) => `${toExactCount(requests)} ${requests === 1 ? 'request' : 'requests'}`
  return (
    <section class="panel heat-panel" aria-label="When it is used">
      <h2>
        {busiest
          ? `Busiest: ${toMoment(busiest.ms, nowMs.value, 'UTC')}, ${toText(busiest.requests)}`
          : 'When it is used'}
      </h2>
      <table class="heat">
        <caption class="unseen">Requests by hour, UTC, of {HEAT_DAYS} days</caption>
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Day</span>
            </th>
            {HOURS.map((hour) => (
              <th key={hour} scope="col">
                {hour % 6 === 0 ? toClock(hour) : <span class="unseen">{toClock(hour)}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {(days ?? []).map(({ ms, hours }) => (
            <tr key={ms}>
              <th scope="row">
                <a href={toHrefWith({ ...toQuery(ms, ms + DAY_MS), table: null })}>{toDayName(ms)}</a>
              </th>
              {hours.map((requests, hour) => (
                <td
                  key={hour}
                  class={requests === null ? 'heat-none' : `heat-${toShade(requests, busiest?.requests ?? 1)}`}
                  title={requests === null ? undefined : `${toDayName(ms)}, ${toClock(hour)}: ${toText(requests)}`}
                >
                  <span class="unseen">{requests ?? 'not yet'}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
