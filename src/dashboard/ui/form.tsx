/**
 * Forms: what is typed, the way to the API, and what it refuses, which is shown at the field that it names. Fields are called as the
 * API's columns are.
 */
import { type Signal, useSignal } from '@preact/signals'
import { type ComponentChildren, createContext, type InputHTMLAttributes } from 'preact'
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks'
import { toRefusal } from '../api/loaded.ts'
import type { Refusal } from '../api/refusal.ts'
import { Button, Icon } from './controls.tsx'

export interface FormState<Values extends Record<string, string>> {
  values: Signal<Values>
  isBusy: Signal<boolean>
  problem: Signal<Refusal | null>
  set(changes: Partial<Values>): void
  submit(): Promise<void>
}

/** @param send what happens when it is sent; what it throws is shown. */
export function useForm<Values extends Record<string, string>>(
  initial: Values,
  send: (values: Values) => Promise<unknown>,
): FormState<Values> {
  const values = useSignal(initial)
  const isBusy = useSignal(false)
  const problem = useSignal<Refusal | null>(null)
  return {
    ...{ values, isBusy, problem },
    set(changes) {
      values.value = { ...values.value, ...changes }
      // What was refused is being mended.
      if (problem.value?.field && problem.value.field in changes) problem.value = null
    },
    async submit() {
      if (isBusy.value) return
      isBusy.value = true
      problem.value = null
      try {
        await send(values.value)
      } catch (error) {
        problem.value = toRefusal(error)
      }
      isBusy.value = false
    },
  }
}

/** A thing as it was when its form was opened: what the page has read again since is not what somebody has seen and edits. */
export const useOpened = <T extends object>(of: T): T => useState(of)[0]

const Sent = createContext<{ problem: Refusal | null; isAtField: boolean }>({ problem: null, isAtField: false })

interface FormProps {
  // biome-ignore lint/suspicious/noExplicitAny: whatever fields it has
  of: FormState<any>
  /** What its button says. */
  submit: string
  /** `bad` takes something away; `plain` stands beside what matters more. */
  kind?: 'main' | 'bad' | 'plain'
  isReady?: boolean
  /** Stands beside the button. */
  beside?: ComponentChildren
  children: ComponentChildren
}

export function Form({ of, submit, kind = 'main', isReady = true, beside, children }: FormProps) {
  const at = useRef<HTMLFormElement>(null)
  const { problem, isBusy } = of
  // In a part of the form that is folded nobody would see it.
  const field = problem.value && at.current?.querySelector(`[name="${problem.value.field}"][aria-invalid]`)
  const isAtField = field?.checkVisibility() ?? false
  const send = async (event: Event) => {
    event.preventDefault()
    await of.submit()
    if (!problem.value) return
    // After it is drawn.
    requestAnimationFrame(() => at.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus())
  }
  return (
    <form ref={at} class="form" onSubmit={send} noValidate>
      <Sent.Provider value={{ problem: problem.value, isAtField }}>{children}</Sent.Provider>
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
          {submit}
        </Button>
        {beside}
      </div>
    </form>
  )
}

interface FieldProps<Values extends Record<string, string>> {
  of: Pick<FormState<Values>, 'values' | 'set'>
  /** As its column; what the API refuses is told by it. */
  name: keyof Values & string
  label: string
  hint?: ComponentChildren
  /** What is wrong with what stands in it, where that is known before it is sent. */
  wrong?: string | undefined
}

/** Its ids, whether it is wrong as it stands or was by the last answer, and what is said of that below it. */
function useField(name: string, wrong: string | undefined) {
  const id = useId()
  const { problem, isAtField } = useContext(Sent)
  const refused = problem?.field === name ? problem.message : undefined
  return {
    ...{ id, hintId: `${id}-hint` },
    isWrong: wrong !== undefined || refused !== undefined,
    refused: isAtField && wrong === undefined ? refused : undefined,
  }
}

interface HintProps {
  id: string
  wrong: string | undefined
  /** What the last answer said of it. */
  refused: string | undefined
  children: ComponentChildren
}

function Hint({ id, wrong, refused, children }: HintProps) {
  if (refused)
    return (
      <p class="hint wrong" id={id} role="alert">
        {refused}
      </p>
    )
  return children || wrong ? (
    <p class={wrong ? 'hint wrong' : 'hint'} id={id}>
      {wrong ?? children}
    </p>
  ) : null
}

type TextProps<Values extends Record<string, string>> = FieldProps<Values> & {
  type?: 'text' | 'password' | 'search' | 'date'
  inputMode?: 'numeric' | 'decimal' | 'text'
  autoComplete?: string
  placeholder?: string
  /** Stands before and after what is typed, such as `$`. */
  before?: string
  after?: string
  autoFocus?: boolean
  isCode?: boolean
  lines?: number
}

export function TextField<Values extends Record<string, string>>(props: TextProps<Values>) {
  const { of, name, label, hint, wrong, type = 'text', inputMode, autoComplete = 'off', placeholder, autoFocus } = props
  const { id, hintId, isWrong, refused } = useField(name, wrong)
  useEffect(() => {
    // A browser goes by the attribute in a dialog, and else once only.
    if (autoFocus) document.getElementById(id)?.focus()
  }, [autoFocus, id])
  const shared = {
    ...{ id, name, placeholder, inputMode, autoComplete, spellcheck: false },
    value: of.values.value[name],
    'aria-describedby': hint || wrong || refused ? hintId : undefined,
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
          <input {...({ ...shared, type } as InputHTMLAttributes<HTMLInputElement>)} />
          {props.after && <span aria-hidden="true">{props.after}</span>}
        </span>
      ) : (
        <textarea {...shared} rows={props.lines} />
      )}
      <Hint {...{ id: hintId, wrong, refused }}>{hint}</Hint>
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
  const { id, hintId, isWrong, refused } = useField(name, wrong)
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        {...{ id, name }}
        aria-describedby={hint || wrong || refused ? hintId : undefined}
        aria-invalid={isWrong}
        onChange={({ currentTarget: { value } }) => of.set({ [name]: value } as Partial<Values>)}
      >
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={value === of.values.value[name]}>
            {text}
          </option>
        ))}
      </select>
      <Hint {...{ id: hintId, wrong, refused }}>{hint}</Hint>
    </div>
  )
}

interface EditFormProps<Values extends Record<string, string>> {
  of: FormState<Values>
  onCancel(): void
  children: ComponentChildren
}

export const EditForm = <Values extends Record<string, string>>({ of, onCancel, children }: EditFormProps<Values>) => (
  <Form
    of={of}
    submit="Save"
    beside={
      <Button kind="quiet" onClick={onCancel}>
        Cancel
      </Button>
    }
  >
    {children}
  </Form>
)
