/** What the pages of resources share: a list with its filters, figures below their names, a dialog with a form, a choice of yes and no. */
import { type ComponentChildren, Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { toHref } from '../address/address.ts'
import { Figure } from './figure.tsx'
import { Form, type FormState, SelectField, useForm } from './form.tsx'
import { Overlay, tell } from './notice.tsx'
import { type Column, ListFoot, More, SearchFilter, STEP, Table } from './table.tsx'

interface ListProps<Row> {
  /** What is listed, as a search and a caption name it: `keys`. */
  what: string
  columns: readonly Column<Row>[]
  /** Those that the filters leave, of so many. */
  rows: readonly Row[]
  all: number
  idOf(row: Row): string
  /** Beside the search. */
  filters?: ComponentChildren
  /** Said where no row is left, and the link that shows all. */
  none: readonly [sentence: string, path: string, link: string]
  /** After the count. */
  foot?: string
}

export function List<Row>({ what, columns, rows, all, idOf, filters, none, foot }: ListProps<Row>) {
  const [most, setMost] = useState(STEP)
  const [sentence, path, link] = none
  return (
    <>
      <search class="filters">
        <SearchFilter what={what} />
        {filters}
      </search>
      {rows.length > 0 ? (
        <Table caption={what.charAt(0).toUpperCase() + what.slice(1)} {...{ columns, rows, idOf, most }} />
      ) : (
        <p class="dim">
          {sentence} <a href={toHref(path)}>{link}</a>
        </p>
      )}
      <ListFoot shown={rows.length} all={all}>
        {foot}
      </ListFoot>
      <More rows={rows.length} most={most} setMost={setMost} />
    </>
  )
}

/** Figures, each below its name. */
export const Headline = ({ of: figures }: { of: readonly (readonly [name: string, figure: ComponentChildren])[] }) => (
  <dl class="headline">
    {figures.map(([name, figure]) => (
      <Figure key={name} name={name}>
        {figure}
      </Figure>
    ))}
  </dl>
)

interface YesNoProps<Values extends Record<string, string>> {
  of: FormState<Values>
  name: keyof Values & string
  label: string
  yes?: string
  no?: string
  /** Whether no stands first: what is so where nobody says otherwise. */
  isNoFirst?: boolean
}

export const YesNoField = <Values extends Record<string, string>>({
  yes = 'Yes',
  no = 'No',
  isNoFirst = false,
  ...field
}: YesNoProps<Values>) => {
  const options = [['yes', yes] as const, ['no', no] as const]
  return <SelectField {...field} options={isNoFirst ? options.reverse() : options} />
}

interface FormDialogProps<Values extends Record<string, string>> {
  title: string
  initial: Values
  /** Does it, and returns what is told of that; then the dialog is closed. */
  send(values: Values): Promise<string>
  submit: string
  kind?: 'main' | 'bad'
  isReady?(values: Values): boolean
  /** What stands above the form. */
  children?: ComponentChildren
  fields?(form: FormState<Values>): ComponentChildren
  onClose(): void
}

export function FormDialog<Values extends Record<string, string>>(props: FormDialogProps<Values>) {
  const { title, initial, send, submit, kind = 'main', isReady, children, fields, onClose } = props
  const form = useForm(initial, async (values) => {
    tell(await send(values))
    onClose()
  })
  return (
    <Overlay title={title} onClose={onClose}>
      {children}
      <Form of={form} submit={submit} kind={kind} isReady={isReady?.(form.values.value) ?? true}>
        <Fragment>{fields?.(form)}</Fragment>
      </Form>
    </Overlay>
  )
}
