/** What was changed of the catalogue, with the way to its row of the audit log. */
import { toHref } from '../address/address.ts'
import { toActor, toDeed, toObject } from '../audit/words.ts'
import { toMoment } from '../figures/times.ts'
import { nowMs } from '../ui/figure.tsx'
import { type Mark, toIdAfter } from './marks.ts'

/** Of those that come together. */
const MOST = 3

export const MarkLines = ({ of: marks }: { of: readonly Mark[] }) =>
  marks.length === 0 ? null : (
    <ul class="mark-lines">
      {marks.slice(-MOST).map(({ entry }) => (
        <li key={entry.id}>
          <span class="mark" aria-hidden="true" />
          <a href={toHref(`/audit?before=${toIdAfter(entry.id)}`)}>{toMoment(entry.at_ms, nowMs.value, 'UTC')}</a>{' '}
          {toActor(entry)} {toDeed(entry)} {toObject(entry)}
        </li>
      ))}
      {marks.length > MOST && <li class="dim">and {marks.length - MOST} before</li>}
    </ul>
  )
