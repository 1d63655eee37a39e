/** Shows changes of the catalog; a form that previews them before it applies them. */

import { type ComponentChildren, Fragment } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { toEntryName } from '../../domain/changes.ts'
import { toEffectText } from '../../domain/effects.ts'
import { capitalize, count } from '../../domain/text.ts'
import { leave } from '../address/address.ts'
import { toRefusal } from '../api/loaded.ts'
import { Refusal } from '../api/refusal.ts'
import { Button } from '../ui/controls.tsx'
import type { Editing } from '../ui/edit.tsx'
import { FieldChanges, State } from '../ui/figure.tsx'
import { Form, type FormState, useForm } from '../ui/form.tsx'
import { Overlay, tell } from '../ui/notice.tsx'
import { toOriginWord } from '../upstreams/words.ts'
import {
  type Change,
  foldNames,
  foldRoutes,
  foldSame,
  type RowChange,
  toAction,
  toCounts,
  toCountsText,
  toFieldChanges,
  toPlanText,
  toRowsName,
} from './words.ts'

export interface Planned {
  /** The catalog's revision, if the whole catalog changes. */
  revision?: string
  created: number
  updated: number
  deleted: number
  changes: readonly Change[]
  /** Entries overridden by a higher-priority source. */
  overridden?: readonly { name: string; origin: string }[]
  /** Entries no longer declared, and not pruned. */
  kept?: readonly string[]
}

const CHANGES_SHOWN = 100

/** Longer lists show the names only. */
const MAX_UNFOLDED = 8

interface PlanProps {
  of: Planned
  /** True if it was not applied yet. */
  isPreview?: boolean
}

export const Plan = ({ of: { changes: all, overridden = [], kept: others = [] }, isPreview = false }: PlanProps) => {
  const rows = foldRoutes(all)
  const routes = all.length - rows.length
  const kept = foldNames(others)
  const [changes, counts] = [foldSame(rows), toCounts(rows)]
  const staying = [...overridden.map(toStaying), ...kept.map((name) => `${toEntryName(name)}: not in the file, kept`)]
  return (
    <div class="plan">
      <p>
        <strong>
          {isPreview ? capitalize(toPlanText(counts)) : toCountsText(counts)}
          {routes > 0 && `, with ${count(routes, 'route')}`}
          {isPreview && '.'}
        </strong>
        {kept.length > 0 && ` Keeps ${kept.length} that ${kept.length === 1 ? "isn't" : "aren't"} in the file.`}
      </p>
      {changes.length > 0 && (
        <ul class="changes">
          {changes.slice(0, CHANGES_SHOWN).map((change) => (
            <ChangedRow
              key={change.name}
              of={change}
              isFolded={change.action === 'delete' || changes.length > MAX_UNFOLDED}
            />
          ))}
        </ul>
      )}
      {changes.length > CHANGES_SHOWN && <p class="dim">and {changes.length - CHANGES_SHOWN} more</p>}
      {staying.length > 0 && (
        <details open={changes.length === 0}>
          <summary>{staying.length} unchanged</summary>
          <ul class="plain-list">
            {staying.slice(0, CHANGES_SHOWN).map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  )
}

const toStaying = ({ name, origin }: { name: string; origin: string }) =>
  `${toEntryName(name)}: overridden (${toOriginWord(origin)})`

function ChangedRow({ of: change, isFolded }: { of: RowChange; isFolded: boolean }) {
  const { kind, word } = toAction(change)
  const effect = change.effect ? toEffectText(change.effect) : ''
  const head = (
    <>
      <State kind={kind}>{word}</State>{' '}
      <span>
        <strong>{toRowsName(change)}</strong>
        {change.routes > 0 && `, ${count(change.routes, 'route')}`}
      </span>
      {effect && <span class="change-effect">{effect}</span>}
    </>
  )
  const more = change.same.length > 0 && <p class="dim">{[change.name, ...change.same].map(toEntryName).join(', ')}</p>
  if (isFolded)
    return (
      <li>
        <details>
          <summary class="change-head">{head}</summary>
          {more}
          <FieldChanges of={toFieldChanges(change)} />
        </details>
      </li>
    )
  return (
    <li>
      <p class="change-head">{head}</p>
      {more}
      <FieldChanges of={toFieldChanges(change)} />
    </li>
  )
}

interface PlannedFormProps<Values extends Record<string, string>> {
  initial: Values
  /** For something that others may edit. */
  editing?: Pick<Editing<unknown>, 'asksAgain' | 'renew'>
  /** Previews or applies the change. @param planned the preview that was shown. */
  send(values: Values, isPlan: boolean, planned: Planned | null): Promise<Planned & { differs?: boolean }>
  fields(form: FormState<Values>): ComponentChildren
  /** A warning shown with the preview. */
  warn?(values: Values): ComponentChildren
  /** Label of the button that applies the change. */
  apply: string

  kind?: 'main' | 'bad'
  onDone(values: Values): void
  onCancel?: () => void
}

export function PlannedForm<Values extends Record<string, string>>(props: PlannedFormProps<Values>) {
  const { initial, editing, send, fields, warn, apply, kind = 'main', onDone, onCancel } = props
  const [plan, setPlan] = useState<Planned | null>(null)
  const [opened] = useState(initial)
  const form = useForm(
    initial,
    async (values) => {
      const answer = await send(values, true, null)
      if (!toDiffers(answer)) throw new Refusal('No changes.', 'same')
      setPlan(answer)
    },
    editing,
  )
  const doing = useForm({}, async () => {
    try {
      await send(form.values.value, false, plan)
    } catch (error) {
      if (toRefusal(error).kind !== 'revision_conflict') throw error
      // The preview no longer says what would change.
      if (!editing) {
        setPlan(await send(form.values.value, true, null))
        throw new Refusal(CHANGED, 'revision_conflict')
      }
      form.conflict.value = await editing.renew(form.values.value)
      form.set(form.conflict.value.values as Partial<Values>)
      return setPlan(null)
    }
    onDone(form.values.value)
  })
  const back = () => {
    doing.problem.value = null
    setPlan(null)
  }
  const isUnsaved = Object.entries(opened).some(([name, value]) => form.values.value[name] !== value)
  const cancel = onCancel && <Button onClick={() => leave(onCancel)}>Cancel</Button>
  if (plan === null)
    return (
      <Form key="form" of={form} submit="Preview changes" isUnsaved={isUnsaved} otherActions={cancel}>
        {fields(form)}
      </Form>
    )
  // Applying a whole catalog may remove entries that the user didn't name.
  const removes = plan.revision !== undefined && plan.deleted > 0
  return (
    <Fragment key="plan">
      <PlanHeading />
      <Plan of={plan} isPreview />
      {warn?.(form.values.value)}
      <Form
        of={doing}
        submit={removes ? `${apply}: ${toPlanText(toCounts(foldRoutes(plan.changes)))}` : apply}
        kind={removes ? 'bad' : kind}
        isUnsaved={isUnsaved}
        otherActions={<Button onClick={back}>Back</Button>}
      >
        {null}
      </Form>
    </Fragment>
  )
}

/** Closes once the change is applied. */
export function PlannedDialog<Values extends Record<string, string>>({
  title,
  done,
  onClose,
  onDone = onClose,
  ...props
}: Omit<PlannedFormProps<Values>, 'onDone' | 'onCancel'> & {
  title: string
  /** The notice shown after closing. */
  done: string
  onClose(): void
  onDone?: () => void
}) {
  return (
    <Overlay title={title} onClose={onClose}>
      <PlannedForm
        {...props}
        onDone={() => {
          tell(done)
          onDone()
        }}
        onCancel={onClose}
      />
    </Overlay>
  )
}

const CHANGED =
  'Nothing was done: the catalog has changed since the preview. Check this new preview, then confirm again.'

const toDiffers = ({ differs, changes, overridden = [], kept = [] }: Planned & { differs?: boolean }) =>
  differs ?? changes.length + overridden.length + kept.length > 0

/** Takes the focus when the preview appears. */
function PlanHeading() {
  const at = useRef<HTMLHeadingElement>(null)
  useEffect(() => at.current?.focus(), [])
  return (
    <h2 ref={at} tabIndex={-1}>
      Preview
    </h2>
  )
}
