/** The period that reports show: a preset, or days. */
import { DAY_MS, dayOf } from '../../domain/time.ts'
import { setQuery } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { Button } from '../ui/controls.tsx'
import { RANGES, toQuery, toRange, toWanted, type Wanted } from './range.ts'

export const Ranges = ({ wanted }: { wanted: Wanted }) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
  <div class="ranges" role="group" aria-label="Period">
    {RANGES.map(([name, text]) => (
      <button
        key={name}
        type="button"
        class="range"
        aria-pressed={name === wanted.name}
        onClick={() => setQuery({ range: name, from: null, to: null }, 'push')}
      >
        {text}
      </button>
    ))}
    <button
      type="button"
      class="range"
      aria-pressed={wanted.name === 'custom'}
      onClick={() => wanted.name !== 'custom' && setQuery(toDays(wanted), 'push')}
    >
      Custom
    </button>
  </div>
)

/** The shown range as whole days, to start a custom range from. */
function toDays(wanted: Wanted) {
  const { sinceMs } = toRange(wanted, nowMs.value)
  return toQuery(sinceMs, dayOf(nowMs.value) + DAY_MS)
}

const toDate = (ms: number) => new Date(ms).toISOString().slice(0, 10)

export function CustomRange({ of: { sinceMs, untilMs } }: { of: { sinceMs: number; untilMs: number } }) {
  const [first, last, today] = [toDate(sinceMs), toDate(untilMs - 1), toDate(nowMs.value)]
  const send = (event: SubmitEvent) => {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    // Users may enter the days in either order.
    const [from = '', to = ''] = [fields.get('from'), fields.get('to')].map(String).sort()
    if (toWanted(new URLSearchParams({ from, to }), nowMs.value).name === 'custom')
      setQuery({ range: null, from, to }, 'push')
  }
  return (
    // The key re-creates the form when the URL's days change.
    <form key={`${first} ${last}`} class="custom-range" onSubmit={send}>
      <label>
        From
        <input type="date" name="from" defaultValue={first} max={today} required />
      </label>
      <label>
        To
        <input type="date" name="to" defaultValue={last} max={today} required />
      </label>
      <span class="dim">UTC, last day included</span>
      <Button type="submit">Apply</Button>
    </form>
  )
}
