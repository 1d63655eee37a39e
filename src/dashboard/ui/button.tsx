/** What one presses. A link that looks like one goes somewhere; a button does something here. */
import type { ButtonHTMLAttributes, ComponentChildren } from 'preact'
import { Icon, type IconName } from './icon.tsx'

interface Looks {
  /** `main`: the one thing that this page, dialog or form is for. `bad`: takes something away. */
  kind?: 'main' | 'plain' | 'bad' | 'quiet'
  icon?: IconName
  children: ComponentChildren
}

type ButtonProps = Looks & Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'icon' | 'children'>

export const Button = ({ kind = 'plain', icon, children, type = 'button', ...others }: ButtonProps) => (
  <button type={type} class={`button ${kind}`} {...others}>
    {icon && <Icon name={icon} />}
    {children}
  </button>
)

interface LinkProps extends Looks {
  href: string
  /** Whether `n` presses it. */
  'data-new'?: boolean
}

export const ButtonLink = ({ kind = 'plain', icon, children, ...others }: LinkProps) => (
  <a class={`button ${kind}`} {...others}>
    {icon && <Icon name={icon} />}
    {children}
  </a>
)

/** One with no words to be seen: its label is for those who hear it, and for whoever rests on it. */
export const IconButton = ({
  icon,
  label,
  ...others
}: { icon: IconName; label: string } & Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'icon' | 'label'>) => (
  <button type="button" class="icon-button" aria-label={label} title={label} {...others}>
    <Icon name={icon} />
  </button>
)
