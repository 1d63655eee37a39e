/** A button that sends one real request to a model. It shows the cost before, and the result after. */
import { useState } from 'preact/hooks'
import type { ShownModel } from '../../documents/model.ts'
import { toHref } from '../address/address.ts'
import { mayTry } from '../api/session.ts'
import { toPlayed } from '../playground/titles.ts'
import { Button } from '../ui/controls.tsx'
import { State } from '../ui/figure.tsx'
import { announce } from '../ui/notice.tsx'
import { askOnce, type TestResult } from './data.ts'
import { toTestCost } from './words.ts'

/** Shown while the test runs. */
const TESTING: TestResult = { kind: 'off', word: 'Testing…', request: null }

type Tested = Pick<ShownModel, 'slug' | 'enabled' | 'pricing' | 'output_modalities'>

/**
 * Only chat models: the playground's endpoint has no other tasks.
 * @param upstream tests routes to it only
 */
export function TestModel({ of: model, upstream = null }: { of: Tested; upstream?: string | null }) {
  const [result, setResult] = useState<TestResult | null>(null)
  if (!mayTry() || !model.enabled) return null
  const able = toPlayed(model.output_modalities)
  if (!able.includes('chat'))
    return upstream !== null || able.length === 0 ? null : (
      <p class="hint">
        The test is for chat models. Try this one in the{' '}
        <a href={toHref(`/playground?model=${encodeURIComponent(model.slug)}`)}>playground</a>.
      </p>
    )
  const run = async () => {
    setResult(TESTING)
    const answer = await askOnce(model.slug, upstream)
    setResult(answer)
    announce(`${model.slug}: ${answer.word}`)
  }
  return (
    <div class="test">
      <Button onClick={run} aria-disabled={result === TESTING}>
        Test<span class="unseen"> {upstream === null ? model.slug : `the route to ${upstream}`}</span>
      </Button>
      {result === null ? (
        <span class="hint">Sends a request for one token; {toTestCost(model.pricing)}.</span>
      ) : (
        <span class="test-result">
          <State kind={result.kind}>{result.word}</State>
          {result.request !== null && <a href={toHref(`/requests/${result.request}`)}>View request</a>}
        </span>
      )}
    </div>
  )
}
