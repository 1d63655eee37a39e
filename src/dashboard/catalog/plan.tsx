/** What a change would make of the catalogue, or has made of it. */

import { type ComponentChildren, Fragment } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal } from '../api/refusal.ts'
import { Button } from '../ui/controls.tsx'
import { FieldChanges, State } from '../ui/figure.tsx'
import { Form, type FormState, useForm } from '../ui/form.tsx'
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

interface PlannedFormProps<Values extends Record<string, string>> {
  initial: Values
  /** Plans it, or does it. @param planned what was shown before it is done. */
  send(values: Values, isPlan: boolean, planned: Planned | null): Promise<Planned & { differs?: boolean }>
  fields(form: FormState<Values>): ComponentChildren
  /** What is said beside the plan, where a change has a consequence of its own. */
  warn?(values: Values): ComponentChildren
  /** What does it. */
  apply: string
  /** For what takes something away. */
  kind?: 'main' | 'bad'
  onDone(values: Values): void
  onCancel?: () => void
}

export function PlannedForm<Values extends Record<string, string>>(props: PlannedFormProps<Values>) {
  const { initial, send, fields, warn, apply, kind = 'main', onDone, onCancel } = props
  const [plan, setPlan] = useState<Planned | null>(null)
  const form = useForm(initial, async (values) => {
    const answer = await send(values, true, null)
    if (!toDiffers(answer)) throw new Refusal('Nothing would change by that.', 'same')
    setPlan(answer)
  })
  const doing = useForm({}, async () => {
    await send(form.values.value, false, plan)
    onDone(form.values.value)
  })
  const cancel = onCancel && <Button onClick={onCancel}>Cancel</Button>
  if (plan === null)
    return (
      <Form key="form" of={form} submit="See what would change" beside={cancel}>
        {fields(form)}
      </Form>
    )
  return (
    <Fragment key="plan">
      <PlanHeading />
      <Plan of={plan} />
      {warn?.(form.values.value)}
      <Form of={doing} submit={apply} kind={kind} beside={<Button onClick={() => setPlan(null)}>Back</Button>}>
        {null}
      </Form>
    </Fragment>
  )
}

const toDiffers = ({ differs, changes, adoptions, left = [] }: Planned & { differs?: boolean }) =>
  differs ?? changes.length + adoptions.length + left.length > 0

/** Where the focus goes when the plan has come. */
function PlanHeading() {
  const at = useRef<HTMLHeadingElement>(null)
  useEffect(() => at.current?.focus(), [])
  return (
    <h2 ref={at} tabIndex={-1}>
      What would change
    </h2>
  )
}
