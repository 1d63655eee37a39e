/**
 * Edits of documents that others may edit at the same time: changes of different fields are merged, conflicts are
 * shown.
 */
import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useId, useRef } from 'preact/hooks'
import { capitalize } from '../../domain/text.ts'
import { api, ask } from '../api/client.ts'
import { isMember, session } from '../api/session.ts'
import { toActor } from '../audit/words.ts'
import { Icon } from './controls.tsx'
import { When } from './figure.tsx'
import { type FormState, useForm } from './form.tsx'
import { type Difference, type Group, type Merged, mergeValues } from './merge.ts'

type Values = Record<string, string>

export interface Conflict extends Merged {
  /** Null if unknown, as for members, who can't read the audit log. */
  last: { by: string; ms: number } | null
}

export interface Editing<Document> {
  /** The document that the values are based on; reloaded after a conflict. */
  base: Signal<Document>
  /** True if the user must confirm the changed values again. */
  asksAgain(mine: Readonly<Values>): boolean
  /** Reads the current state and merges. */
  renew(mine: Readonly<Values>): Promise<Conflict>
}

interface EditingOptions<Document> {
  /** As it was when the form was opened: a background reload doesn't change what the user edits. */
  of: Document
  /** Omitted to confirm an action, such as a removal. */
  toValues?(of: Document): Readonly<Values>
  read(): Promise<Document>
  /** True for values that can't be compared, such as a credential. Default: without values. */
  asksAgain?(mine: Readonly<Values>): boolean
  /** The document's subject in the audit log. */
  subject: string
  groups?: readonly Group[]
}

export function useEditing<Document>(options: EditingOptions<Document>): Editing<Document> {
  const { of, toValues = () => ({}), read, subject, groups } = options
  const base = useSignal(of)
  return {
    base,
    asksAgain: options.asksAgain ?? (() => options.toValues === undefined),
    async renew(mine) {
      const [now, last] = await Promise.all([read(), findLast(subject)])
      const merged = mergeValues(toValues(base.value), mine, toValues(now), groups)
      base.value = now
      return { ...merged, last }
    },
  }
}

/** A form that edits `of`. @param send gets the document that the values are based on, with its revision. */
export function useEdit<Document, Edited extends Values>(
  options: Omit<EditingOptions<Document>, 'toValues'> & { toValues(of: Document): Edited },
  send: (values: Edited, base: Document) => Promise<unknown>,
): FormState<Edited> & Pick<Editing<Document>, 'base'> {
  const editing = useEditing(options)
  const form = useForm(options.toValues(options.of), (values) => send(values, editing.base.value), editing)
  return { ...form, base: editing.base }
}

async function findLast(subject: string): Promise<Conflict['last']> {
  if (isMember()) return null
  const [row] = await ask(api.audit.get({ query: { subject, limit: 1 } })).then(
    ({ audit }) => audit,
    () => [],
  )
  return row ? { by: toActor(row), ms: row.at_ms } : null
}

const isMe = (name: string) => session.value.state === 'in' && session.value.name === name

export function toWho({ last }: Conflict): string {
  if (last === null) return 'Someone else'
  return isMe(last.by) ? 'You' : capitalize(last.by)
}

/** Lets the user choose between two values of each field, before the form is sent again. */
export function ConflictPanel({ of: form }: { of: FormState<Values> }) {
  const at = useRef<HTMLElement>(null)
  const { value: conflict } = form.conflict
  useEffect(() => at.current?.focus(), [conflict])
  if (conflict === null) return null
  const { both, theirs, last } = conflict
  return (
    <section ref={at} class="conflict" tabIndex={-1} role="alert">
      <h3>
        <Icon name="warning" />
        <span>
          {toWho(conflict)} changed this {last === null ? 'too' : <When ms={last.ms} />}
          {last !== null && isMe(last.by) && ', elsewhere'}
        </span>
      </h3>
      <p>
        {both.length > 0
          ? 'Nothing is saved yet. Choose a value for each field, then save.'
          : 'Nothing is done yet. Check the current state, then confirm again.'}
      </p>
      {both.map((difference) => (
        <Choice key={difference.names.join()} of={difference} form={form} />
      ))}
      {theirs.length > 0 && <p class="hint">Also changed, and kept: {toLabels(form, theirs)}.</p>}
    </section>
  )
}

function Choice({ of: { names, mine, theirs }, form }: { of: Difference; form: FormState<Values> }) {
  const id = useId()
  const values = form.values.value
  const isChosen = (side: Readonly<Values>) => Object.entries(side).every(([name, text]) => values[name] === text)
  return (
    <fieldset>
      <legend>{toLabels(form, [names])}</legend>
      {(
        [
          ['Your entry', mine],
          ['Saved value', theirs],
        ] as const
      ).map(([whose, side]) => (
        <label key={whose}>
          <input type="radio" name={id} checked={isChosen(side)} onChange={() => form.set({ ...side })} />
          <span class="dim">{whose}</span>
          <span>{toText(form, names, side)}</span>
        </label>
      ))}
    </fieldset>
  )
}

/** Labels of the first field of each group. */
export const toLabels = ({ shown }: Pick<FormState<Values>, 'shown'>, groups: readonly Group[]): string =>
  groups
    .flatMap((names) => names.flatMap((name) => shown.get(name)?.label ?? []).slice(0, 1))
    .filter((label, at, all) => all.indexOf(label) === at)
    .join(', ')

const toText = ({ shown }: FormState<Values>, names: Group, values: Readonly<Values>): string => {
  const texts = names.flatMap((name) => {
    const field = shown.get(name)
    const value = values[name]
    return field === undefined || value === undefined ? [] : [field.toText(value, values)]
  })
  return texts.filter(Boolean).join(', ') || 'empty'
}
