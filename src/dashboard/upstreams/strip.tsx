/** How an upstream has done over the last day: an hour each, by how many of its requests failed. */
import { toExactCount } from '../figures/counts.ts'
import { toMoment } from '../figures/times.ts'
import { nowMs } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { useHours } from './data.ts'
import { toStrip } from './words.ts'

export function Strip({ id }: { id: string }) {
  const { data, problem, reload } = useHours(id)
  const hours = toStrip(data ?? [], nowMs.value)
  const requests = hours.reduce((sum, hour) => sum + hour.requests, 0)
  const errors = hours.reduce((sum, hour) => sum + hour.errors, 0)
  return (
    <section class="part">
      <h3>The last 24 hours</h3>
      {problem && <Problem of={problem} retry={reload} />}
      <ol class="strip" aria-hidden="true">
        {hours.map(({ ms, kind, word }) => (
          <li key={ms} class={kind} title={`${toMoment(ms, nowMs.value)}: ${word}`} />
        ))}
      </ol>
      <p class="dim">
        {data === null
          ? '\u00a0'
          : requests === 0
            ? 'No requests.'
            : `${toExactCount(requests)} requests, ${errors === 0 ? 'none' : toExactCount(errors)} of them failed.`}
      </p>
    </section>
  )
}
