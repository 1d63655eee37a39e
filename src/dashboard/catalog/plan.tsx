/** What a change would make of the catalogue, or has made of it. */
import { FieldChanges } from '../ui/field-changes.tsx'
import { State } from '../ui/figure.tsx'
import { type Change, toAction, toCountsText, toFieldChanges, toRowName } from './words.ts'

export interface Planned {
  /** Of the whole catalogue, where it is all of that that is changed. */
  revision?: string
  created: number
  updated: number
  deleted: number
  adopted: number
  changes: readonly Change[]
  adoptions: readonly { name: string; before: string; after: string }[]
  /** What would change and stays as it is. */
  left?: readonly { name: string; origin: string; why: string; by?: string }[]
}

/** More would be a file to read: the export has all of them. */
const CHANGES_SHOWN = 100

/** Of more than these one sees the names first. */
const MOST_UNFOLDED = 8

export const Plan = ({ of: { changes, adoptions, left = [], ...counts } }: { of: Planned }) => (
  <div class="plan">
    <p>
      <strong>{toCountsText(counts)}</strong>
      {left.length > 0 && `, ${left.length} left as ${left.length === 1 ? 'it is' : 'they are'}`}
    </p>
    {changes.length > 0 && (
      <ul class="changes">
        {changes.slice(0, CHANGES_SHOWN).map((change) => (
          <ChangedRow key={change.name} of={change} isFolded={changes.length > MOST_UNFOLDED} />
        ))}
      </ul>
    )}
    {changes.length > CHANGES_SHOWN && <p class="dim">and {changes.length - CHANGES_SHOWN} more</p>}
    {adoptions.length > 0 && (
      <details>
        <summary>{adoptions.length} with another owner and nothing else</summary>
        <ul class="plain-list">
          {adoptions.slice(0, CHANGES_SHOWN).map(({ name, before, after }) => (
            <li key={name}>
              {toRowName(name)}: {before} → {after}
            </li>
          ))}
        </ul>
      </details>
    )}
    {left.length > 0 && (
      <details open={changes.length === 0}>
        <summary>
          {left.length} left as {left.length === 1 ? 'it is' : 'they are'}
        </summary>
        <ul class="plain-list">
          {left.slice(0, CHANGES_SHOWN).map((one) => (
            <li key={one.name}>
              {toRowName(one.name)}: {toWhy(one)}
            </li>
          ))}
        </ul>
      </details>
    )}
  </div>
)

function toWhy({ why, origin, by }: NonNullable<Planned['left']>[number]): string {
  if (why === 'stronger') return `set by ${origin === 'admin' ? 'hand' : origin}, which wins`
  if (why === 'used') return `no longer named, and needed by ${by ?? 'a route'}`
  return 'no longer named, and not pruned'
}

function ChangedRow({ of: change, isFolded }: { of: Change; isFolded: boolean }) {
  const { kind, word } = toAction(change)
  const head = (
    <>
      <State kind={kind}>{word}</State> <strong>{toRowName(change.name)}</strong>
    </>
  )
  if (isFolded)
    return (
      <li>
        <details>
          <summary class="change-head">{head}</summary>
          <FieldChanges of={toFieldChanges(change)} />
        </details>
      </li>
    )
  return (
    <li>
      <p class="change-head">{head}</p>
      <FieldChanges of={toFieldChanges(change)} />
    </li>
  )
}
