/** Asks an upstream whether it answers, at no cost, and says there what that came to. */
import { useState } from 'preact/hooks'
import { toRefusal } from '../api/loaded.ts'
import { Button } from '../ui/button.tsx'
import { State } from '../ui/figure.tsx'
import { announce } from '../ui/notice.tsx'
import { testUpstream } from './data.ts'
import { type Told, toTestText } from './words.ts'

const ASKING: Told = { kind: 'off', word: 'Asking …' }

/** @param ids of upstreams, which are asked side by side. */
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
    if (isBusy) return
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
