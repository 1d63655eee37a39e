/** Tests of upstreams, and their results in the last day. */
import { useState } from 'preact/hooks'
import { nowMs } from '../api/clock.ts'
import { toRefusal } from '../api/loaded.ts'
import { toExactCount, toMoment } from '../figures/figures.ts'
import { Button } from '../ui/controls.tsx'
import { State } from '../ui/figure.tsx'
import { announce, Problem } from '../ui/notice.tsx'
import { testUpstream, useHours } from './data.ts'
import { type Told, toStrip, toTestText } from './words.ts'

export function Strip({ id }: { id: string }) {
  const { data, problem, reload } = useHours(id)
  const hours = toStrip(data ?? [], nowMs.value)
  const requests = hours.reduce((sum, hour) => sum + hour.requests, 0)
  const errors = hours.reduce((sum, hour) => sum + hour.errors, 0)
  return (
    <section class="part">
      <h3>Last 24 hours</h3>
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
            : `${toExactCount(requests)} ${requests === 1 ? 'request' : 'requests'}, ${toExactCount(errors)} failed.`}
      </p>
    </section>
  )
}

const ASKING: Told = { kind: 'off', word: 'Testing…' }

/** @param ids upstreams to test, in parallel. */
export function TestButton({ ids, label }: { ids: readonly string[]; label: string }) {
  const [told, setTold] = useState<readonly (Told & { id: string })[]>([])
  const isBusy = told.some(({ word }) => word === ASKING.word)
  const test = async (id: string): Promise<Told> => {
    try {
      return toTestText(await testUpstream(id))
    } catch (error) {
      return { kind: 'bad', word: toRefusal(error).message }
    }
  }
  const run = async () => {
    setTold(ids.map((id) => ({ id, ...ASKING })))
    await Promise.all(
      ids.map(async (id) => {
        const result = await test(id)
        setTold((before) => before.map((one) => (one.id === id ? { id, ...result } : one)))
        announce(`${id}: ${result.word}`)
      }),
    )
  }
  return (
    <div class="test">
      <Button onClick={run} aria-disabled={isBusy}>
        {label}
      </Button>
      <ul class="test-results">
        {told.map(({ id, kind, word }) => (
          <li key={id}>
            <State kind={kind}>{ids.length > 1 ? `${id}: ${word}` : word}</State>
          </li>
        ))}
      </ul>
    </div>
  )
}
