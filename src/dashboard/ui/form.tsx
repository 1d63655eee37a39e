/** Forms that show an API error at the field it names; fields are named like the API's. */
import { type Signal, useSignal, useSignalEffect } from '@preact/signals'
import { type ComponentChildren, createContext, type InputHTMLAttributes } from 'preact'
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { leave, named } from '../address/address.ts'
import { toRefusal } from '../api/loaded.ts'
import { Refusal, toFieldMessage } from '../api/refusal.ts'
import { hasEnded } from '../api/session.ts'
import { Button, Icon } from './controls.tsx'
import { type Conflict, ConflictPanel, type Editing, toLabels, toWho } from './edit.tsx'
import { announce, tell } from './notice.tsx'

export interface FormState<Values extends Record<string, string>> {
  values: Signal<Values>
  isBusy: Signal<boolean>
  problem: Signal<Refusal | null>
  conflict: Signal<Conflict | null>
  /** True if an earlier response got lost, so what was sent may be saved. */
  isLost: Signal<boolean>
  /** Labels and texts of fields by name, for conflicts. */
  shown: Map<string, ShownField>
  set(changes: Partial<Values>): void
  submit(): Promise<void>
}

interface ShownField {
  label: string
  /** @param all all values of the form */
  toText(value: string, all: Readonly<Record<string, string>>): string
}

/** Others may keep saving. */
const MAX_MERGES = 5

/**
 * @param send submits the values; its error is shown in the form
 * @param editing for something that exists: merges the changes of others (`edit.tsx`)
 */
export function useForm<Values extends Record<string, string>>(
  initial: Values,
  send: (values: Values) => Promise<unknown>,
  editing?: Pick<Editing<unknown>, 'asksAgain' | 'renew'>,
): FormState<Values> {
  const values = useSignal(initial)
  const isBusy = useSignal(false)
  const problem = useSignal<Refusal | null>(null)
  const conflict = useSignal<Conflict | null>(null)
  const shown = useRef(new Map<string, ShownField>()).current
  const isLost = useSignal(false)

  const sendMerged = async () => {
    let found: Conflict | null = null
    for (let merges = 0; ; merges++) {
      try {
        await send(values.value)
        break
      } catch (error) {
        if (!editing || merges === MAX_MERGES || toRefusal(error).kind !== 'revision_conflict') throw error
        found = await editing.renew(values.value)
        const theirs = found.theirs.flat().map((name) => [name, found?.values[name]])
        values.value = { ...values.value, ...Object.fromEntries(theirs) }
        if (found.both.length === 0 && !editing.asksAgain(values.value)) continue
        conflict.value = found
        return
      }
    }
    const labels = found && toLabels({ shown }, found.theirs)
    if (found && labels) tell(`${toWho(found)} changed ${labels} at the same time. Both changes are saved.`)
  }

  // Shown until the user has signed in again.
  useSignalEffect(() => {
    if (!hasEnded.value && problem.peek()?.kind === 'signed_out') problem.value = null
  })

  return {
    ...{ values, isBusy, problem, conflict, isLost, shown },
    set(changes) {
      values.value = { ...values.value, ...changes }
      // The user is fixing the rejected field.
      if (problem.value?.field && problem.value.field in changes) problem.value = null
    },
    async submit() {
      if (isBusy.value) return
      isBusy.value = true
      problem.value = null
      conflict.value = null
      try {
        await sendMerged()
        isLost.value = false
      } catch (error) {
        problem.value = inForm(toRefusal(error), isLost.value)
        isLost.value ||= problem.value.kind === 'unreachable'
      }
      isBusy.value = false
    },
  }
}

/** Adapts an error to its form. @param wasLost true if an earlier response got lost */
function inForm(refusal: Refusal, wasLost: boolean): Refusal {
  const { kind, message, field } = refusal
  if (wasLost && kind.endsWith('_exists'))
    return new Refusal(`${message} Your first attempt may have created it.`, kind, field)
  if (kind === 'unreachable') return new Refusal(LOST, kind)
  return kind === 'signed_out' ? new Refusal(SIGNED_OUT, kind) : refusal
}

/** True because edits carry a revision, and names are unique. */
const LOST = "No response from the server. Send this again when it's back: even if it arrived, it isn't applied twice."
const SIGNED_OUT = 'Your session had ended, so nothing was changed. Sign in, then send this again.'

interface Sent {
  problem: Refusal | null
  isAtField: boolean
  warnings: readonly FieldWarning[]
}

const Sent = createContext<Sent>({ problem: null, isAtField: false, warnings: [] })

/** Warning about a value that can be saved, but will make requests fail. */
export interface FieldWarning {
  field: string
  message: string
}

/** Prevents warnings while a word is being typed. */
const SETTLED_MS = 700

/** Shows warnings once typing pauses. @returns also `show`, which shows them now; true if all were already shown. */
function useShownWarnings(found: readonly FieldWarning[]): [shown: readonly FieldWarning[], show: () => boolean] {
  const [shown, setShown] = useState(found)
  const text = JSON.stringify(found)
  const isShown = JSON.stringify(shown) === text
  useEffect(() => {
    if (isShown) return
    const timer = setTimeout(() => setShown(found), SETTLED_MS)
    return () => clearTimeout(timer)
  }, [text, isShown])
  const isKnown = found.every(({ message }) => shown.some((one) => one.message === message))
  return [
    shown,
    () => {
      if (!isShown) setShown(found)
      if (!isKnown) announce(found.map(({ message }) => message).join(' '))
      return isKnown
    },
  ]
}

interface FormProps {
  // biome-ignore lint/suspicious/noExplicitAny: a form may have any fields
  of: FormState<any>
  submit: string
  /** `bad`: destructive; `plain`: secondary. */
  kind?: 'main' | 'bad' | 'plain'
  isReady?: boolean
  /** Default: while its values differ from those it was opened with. */
  isUnsaved?: boolean
  /** Warnings about the current values; the user confirms them by submitting. */
  warnings?: readonly FieldWarning[]
  /** Next to the button that submits. */
  otherActions?: ComponentChildren
  children: ComponentChildren
}

const NO_WARNINGS: readonly FieldWarning[] = []

export function Form(props: FormProps) {
  const { of, submit, kind = 'main', isReady = true, warnings: found = NO_WARNINGS, otherActions, children } = props
  const [warnings, show] = useShownWarnings(found)
  const at = useRef<HTMLFormElement>(null)
  const { problem, isBusy } = of
  const { current: opened } = useRef(of.values.peek())
  const saved = useSignal(opened)
  const differs = (from: Record<string, string>) =>
    Object.entries(from).some(([name, value]) => of.values.value[name] !== value)
  const isUnsaved = props.isUnsaved ?? differs(saved.value)
  useEffect(() => {
    const wanted = named('edit')
    if (wanted === null) return
    // After its dialog has opened, which moves the focus.
    requestAnimationFrame(() => {
      const field = at.current?.querySelector<HTMLElement>(`[name="${CSS.escape(wanted)}"]`)
      field?.focus()
      // Typing replaces the old value.
      if (field instanceof HTMLInputElement) field.select()
    })
  }, [])
  // An error in a collapsed part would be invisible.
  const field =
    problem.value && at.current?.querySelector(`[name="${CSS.escape(problem.value.field ?? '')}"][aria-invalid]`)
  const isAtField = field?.checkVisibility() ?? false
  const send = async (event: Event) => {
    event.preventDefault()
    if (!show()) return
    const sent = of.values.peek()
    await of.submit()
    if (!problem.value) {
      // A form may have emptied itself for the next values.
      if (!of.conflict.value) saved.value = differs(opened) ? sent : opened
      return
    }
    // After rendering.
    requestAnimationFrame(() => at.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus())
  }
  return (
    <form ref={at} class="form" onSubmit={send} noValidate data-unsaved={isUnsaved || undefined}>
      <Sent.Provider value={{ problem: problem.value, isAtField, warnings }}>{children}</Sent.Provider>
      <ConflictPanel of={of} />
      <div class="form-problem" role="alert">
        {problem.value && !isAtField && (
          <p>
            <Icon name="warning" />
            {problem.value.message}
          </p>
        )}
      </div>
      <div class="form-foot">
        <Button type="submit" kind={kind} aria-disabled={isBusy.value || !isReady} disabled={!isReady}>
          {warnings.length > 0 ? `${submit} anyway` : submit}
        </Button>
        {otherActions}
      </div>
    </form>
  )
}

interface FieldProps<Values extends Record<string, string>> {
  of: Pick<FormState<Values>, 'values' | 'set'> & Partial<Pick<FormState<Values>, 'shown'>>
  /** The API's field name, which its errors refer to. */
  name: keyof Values & string
  label: string
  hint?: ComponentChildren
  /** Client-side validation error. */
  wrong?: string | undefined
}

function useField(name: string, wrong: string | undefined) {
  const id = useId()
  const { problem, isAtField, warnings } = useContext(Sent)
  const refused = problem?.field === name ? toFieldMessage(problem.message, name) : undefined
  return {
    ...{ id, hintId: `${id}-hint` },
    isWrong: wrong !== undefined || refused !== undefined,
    refused: isAtField && wrong === undefined ? refused : undefined,
    warned: warnings.filter(({ field }) => field === name).map(({ message }) => message),
  }
}

interface HintProps {
  id: string
  wrong: string | undefined
  /** The API's error for this field. */
  refused: string | undefined
  warned: readonly string[]
  children: ComponentChildren
}

function Hint({ id, wrong, refused, warned, children }: HintProps) {
  if (refused)
    return (
      <p class="hint wrong" id={id} role="alert">
        {refused}
      </p>
    )
  if (!children && !wrong && warned.length === 0) return null
  return (
    <div id={id}>
      {(children || wrong) && <p class={wrong ? 'hint wrong' : 'hint'}>{wrong ?? children}</p>}
      {warned.map((message) => (
        <p key={message} class="hint warned">
          <Icon name="warning" />
          {message}
        </p>
      ))}
    </div>
  )
}

type TextProps<Values extends Record<string, string>> = FieldProps<Values> & {
  type?: 'text' | 'password' | 'search' | 'date'
  inputMode?: 'numeric' | 'decimal' | 'text'
  autoComplete?: string
  placeholder?: string
  /** Unit next to the input, such as `$`. */
  before?: string
  after?: string
  autoFocus?: boolean
  isCode?: boolean
  /** Offered while typing; any other text is allowed. */
  suggestions?: readonly (readonly [value: string, text: string])[]
  lines?: number
  /** In a conflict, if its label and value don't say enough. */
  toText?: ShownField['toText'] | undefined
}

export function TextField<Values extends Record<string, string>>(props: TextProps<Values>) {
  const { of, name, label, hint, wrong, type = 'text', inputMode, autoComplete = 'off', placeholder, autoFocus } = props
  const { id, hintId, isWrong, refused, warned } = useField(name, wrong)
  of.shown?.set(name, {
    label,
    toText:
      props.toText ??
      ((value) =>
        type === 'password' ? 'a new one' : value === '' ? (placeholder ?? '') : `${props.before ?? ''}${value}`),
  })
  // Before the page is drawn: later, text typed immediately elsewhere would land here.
  useLayoutEffect(() => {
    // Outside dialogs, browsers honor the attribute only once per page load.
    if (autoFocus) document.getElementById(id)?.focus()
  }, [autoFocus, id])
  const shared = {
    ...{ id, name, placeholder, inputMode, autoComplete, spellcheck: false },
    value: of.values.value[name],
    'aria-describedby': hint || wrong || refused || warned.length > 0 ? hintId : undefined,
    'aria-invalid': isWrong,
    autofocus: autoFocus,
    class: props.isCode ? 'code-input' : undefined,
    onInput: (event: { currentTarget: { value: string } }) =>
      of.set({ [name]: event.currentTarget.value } as Partial<Values>),
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {props.lines === undefined ? (
        <span class="input">
          {props.before && <span aria-hidden="true">{props.before}</span>}
          <input
            {...({ ...shared, type, list: props.suggestions && `${id}-list` } as InputHTMLAttributes<HTMLInputElement>)}
          />
          {props.suggestions && (
            <datalist id={`${id}-list`}>
              {props.suggestions.map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </datalist>
          )}
          {props.after && <span aria-hidden="true">{props.after}</span>}
        </span>
      ) : (
        <textarea {...shared} rows={props.lines} />
      )}
      <Hint {...{ id: hintId, wrong, refused, warned }}>{hint}</Hint>
    </div>
  )
}

export function SelectField<Values extends Record<string, string>>({
  of,
  name,
  label,
  hint,
  wrong,
  options,
}: FieldProps<Values> & { options: readonly (readonly [value: string, text: string])[] }) {
  const { id, hintId, isWrong, refused, warned } = useField(name, wrong)
  of.shown?.set(name, { label, toText: (value) => options.find(([known]) => known === value)?.[1] ?? value })
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        {...{ id, name }}
        aria-describedby={hint || wrong || refused || warned.length > 0 ? hintId : undefined}
        aria-invalid={isWrong}
        onChange={({ currentTarget: { value } }) => of.set({ [name]: value } as Partial<Values>)}
      >
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={value === of.values.value[name]}>
            {text}
          </option>
        ))}
      </select>
      <Hint {...{ id: hintId, wrong, refused, warned }}>{hint}</Hint>
    </div>
  )
}

/** @param values off and on */
export function SwitchField<Values extends Record<string, string>>({
  of,
  name,
  label,
  hint,
  wrong,
  values: [off, on] = ['no', 'yes'],
}: FieldProps<Values> & { values?: readonly [string, string] }) {
  const { id, hintId, isWrong, refused, warned } = useField(name, wrong)
  of.shown?.set(name, { label, toText: (value) => (value === on ? 'on' : 'off') })
  return (
    <div class="field">
      <label class="switch-line" for={id}>
        <input
          {...{ id, name }}
          type="checkbox"
          // biome-ignore lint/a11y/useAriaPropsForRole: a checkbox reports its state itself
          role="switch"
          class="switch"
          checked={of.values.value[name] === on}
          aria-describedby={hint || wrong || refused || warned.length > 0 ? hintId : undefined}
          aria-invalid={isWrong}
          onChange={({ currentTarget: { checked } }) => of.set({ [name]: checked ? on : off } as Partial<Values>)}
        />
        {label}
      </label>
      <Hint {...{ id: hintId, wrong, refused, warned }}>{hint}</Hint>
    </div>
  )
}

interface FileProps {
  file: Signal<File | null>
  name: string
  label: string
  accept: string
}

/** Restores the selected file. */
function keepFile(input: HTMLInputElement | null, file: File | null): void {
  if (!input || !file || input.files?.[0] === file) return
  const chosen = new DataTransfer()
  chosen.items.add(file)
  input.files = chosen.files
}

/** Not part of the form's values. */
export function FileField({ file, name, label, accept }: FileProps) {
  const { id, hintId, isWrong, refused } = useField(name, undefined)
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        {...{ id, name, accept }}
        type="file"
        ref={(input) => keepFile(input, file.value)}
        aria-describedby={refused ? hintId : undefined}
        aria-invalid={isWrong}
        onChange={({ currentTarget: { files } }) => {
          file.value = files?.[0] ?? null
        }}
      />
      <Hint {...{ id: hintId, wrong: undefined, refused, warned: [] }}>{null}</Hint>
    </div>
  )
}

interface EditFormProps<Values extends Record<string, string>> {
  of: FormState<Values>
  warnings?: readonly FieldWarning[]
  onCancel(): void
  children: ComponentChildren
}

export const EditForm = <Values extends Record<string, string>>(props: EditFormProps<Values>) => {
  const { of, warnings = NO_WARNINGS, onCancel, children } = props
  return (
    <Form
      of={of}
      submit="Save"
      warnings={warnings}
      otherActions={
        <Button kind="quiet" onClick={() => leave(onCancel)}>
          Cancel
        </Button>
      }
    >
      {children}
    </Form>
  )
}
